"use strict";
// backend sends the requests of the explorer to the server of the page. It throws an error as {error, flag}.
const backend = (() => {
  const send = async (what, headers, body, signal) => {
    const reply = await fetch("api/" + what, { method: "POST", headers, body, signal }).catch((e) => { throw e.name === "AbortError" ? e : { error: "replay ui does not answer", gone: true }; });
    const text = await reply.text();
    let found;
    try { found = JSON.parse(text); } catch { throw { error: text }; }
    if (!reply.ok || found.error) throw found; // an error in JSON
    return found;
  };
  return {
    // ask returns the answer to a request.
    ask: (what, body, signal) => send(what, { "Content-Type": "application/json" }, JSON.stringify(body), signal),
    // plan searches for the smallest cluster, and calls show with the progress.
    plan: async (body, show, signal) => {
      const reply = await fetch("api/plan", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
      if (!reply.ok) throw { error: await reply.text() };
      const reader = reply.body.getReader(), decoder = new TextDecoder();
      let rest = "", found = null;
      for (;;) {
        const { done, value } = await reader.read();
        rest += decoder.decode(value, { stream: !done });
        const lines = rest.split("\n");
        rest = lines.pop();
        for (const line of lines.map((l) => JSON.parse(l))) {
          if (line.refused) throw line.refused;
          if (line.found) found = line.found;
          else show(line);
        }
        if (done) break;
      }
      if (!found) throw { error: "the search ended without an answer" };
      return found;
    },
    // upload adds a file to the traces and returns the names of all traces.
    upload: (file) => send("upload?name=" + encodeURIComponent(file.name), { "Content-Type": "application/octet-stream" }, file),
  };
})();
