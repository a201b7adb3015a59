"use strict";
// backend answers the requests of the explorer with the simulator in the page, which runs in a Web Worker. Nothing
// leaves the page.
const backend = (() => {
  const text = (id) => document.getElementById(id).textContent;
  const worker = new Worker(URL.createObjectURL(new Blob([text("go"), "\n", text("worker")], { type: "text/javascript" })));
  const open = new Map(); // requests without an answer, by number
  let last = 0, ended = "";
  const end = (why) => {
    ended = `the simulator has stopped: ${why}; load the page again`;
    for (const { no } of open.values()) no({ error: ended });
    open.clear();
  };
  worker.onerror = (e) => end(e.message || "this browser lets no page from a file run one");
  worker.onmessage = ({ data: m }) => {
    if (m.ended !== undefined) { end(m.ended); return; }
    const question = open.get(m.number);
    open.delete(m.number);
    if (!question) return;
    const found = JSON.parse(m.text);
    if (m.ok) question.ok(found);
    else question.no(found);
  };
  const send = (message, signal, moved = []) => new Promise((ok, no) => {
    const stopped = () => new DOMException("", "AbortError");
    if (ended) { no({ error: ended }); return; }
    if (signal?.aborted) { no(stopped()); return; }
    const number = ++last;
    open.set(number, { ok, no });
    signal?.addEventListener("abort", () => {
      if (!open.delete(number)) return;
      worker.postMessage({ end: number });
      no(stopped());
    });
    worker.postMessage({ number, ...message }, moved);
  });
  worker.postMessage({ program: text("simulator"), packed: data.files || [], traces: data.traces, carried: data.run ? data.run.carried : [] });
  const about = el("div.card", el("p", data.run ? "" : "The simulator is in this page. Traces stay on this machine: nothing is sent anywhere, and the page works without a network."));
  about.style.marginBottom = "14px";
  about.id = "about";
  const same = (a, b) => Object.keys({ ...a, ...b }).every((k) => a[k] === b[k]);
  // answered reports whether the replay of the recorded run gave the recorded result.
  const answered = (settings, answer) => {
    if (!data.run || !same(settings, data.run.settings)) return;
    const met = answer.digest === data.run.digest;
    document.body.dataset.same = String(met);
    about.replaceChildren(el("p", el(met ? "b.met" : "b.missed", met ? "✓ the recorded run" : "✗ not the recorded run"),
      met ? ` ${data.run.name}, replayed on this page: its digest is the one that was recorded.` : ` ${data.run.name} was recorded with the digest ${data.run.digest}: this page computes another one.`,
      " The trace is in the page; nothing is sent anywhere."), ...carried);
  };
  const kept = data.run ? data.run.carried.map((name) => `--${name} ${data.run.settings[name]}`) : [];
  const carried = kept.length ? [el("p", "Settings of that run that hold whatever is turned here: ", ...words(kept.join(", ")), ".")] : [];
  main.append(about);
  document.body.append(el("details", el("summary", "Licenses of what this page is made of"), el("pre.small", { style: "white-space: pre-wrap" }, text("licenses"))));
  return {
    // ask returns the answer to a request.
    ask: (what, body, signal) => send({ what, body: JSON.stringify(body) }, signal),
    answered,
    // upload adds a file to the traces and returns the names of all traces.
    upload: async (file) => {
      const content = new Uint8Array(await file.arrayBuffer());
      return send({ what: "add", body: file.name, file: file.name, content }, undefined, [content.buffer]);
    },
  };
})();
