"use strict";
// backend answers what the page on which settings are turned asks: here, what it was
// served by. What cannot be answered is thrown as {error, flag}.
const backend = (() => {
  const send = async (what, headers, body, signal) => {
    const reply = await fetch("api/" + what, { method: "POST", headers, body, signal });
    const text = await reply.text();
    let found;
    try { found = JSON.parse(text); } catch { throw { error: text }; }
    if (!reply.ok || found.error) throw found; // a refusal is an answer
    return found;
  };
  return {
    // ask returns the answer to a question.
    ask: (what, body, signal) => send(what, { "Content-Type": "application/json" }, JSON.stringify(body), signal),
    // upload adds a file to the traces and returns the names of all.
    upload: (file) => send("upload?name=" + encodeURIComponent(file.name), { "Content-Type": "application/octet-stream" }, file),
  };
})();
