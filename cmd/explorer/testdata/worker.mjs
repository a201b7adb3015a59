// Runs the worker of a page in Node: node worker.mjs PAGE FILE QUESTIONS. QUESTIONS is a JSON list of
// [kind, body]. The script prints each answer as a line of JSON.
import { readFileSync, writeSync } from "node:fs";
import { runInThisContext } from "node:vm";

const [page, file, questions] = process.argv.slice(2);
const html = readFileSync(page, "utf8");
const part = (id) => html.match(new RegExp(`<script type="text/plain" id="${id}">([^]*?)</script>`))[1];
const data = JSON.parse(html.match(/<script type="application\/json" id="data">([^]*?)<\/script>/)[1]);

const open = new Map();
globalThis.onmessage = null;
globalThis.postMessage = ({ number, ok, text, ended }) => {
  if (ended !== undefined) throw new Error(ended);
  open.get(number)({ ok, ...JSON.parse(text).error ? JSON.parse(text) : { answer: JSON.parse(text) } });
};
runInThisContext(part("go") + "\n" + part("worker"), { filename: "worker.js" });

const print = (answer) => writeSync(1, JSON.stringify(answer) + "\n");
let last = 0;
const send = (message) => new Promise((done) => { open.set(++last, done); onmessage({ data: { number: last, ...message } }); });
onmessage({ data: { program: part("simulator"), packed: data.files || [], traces: data.traces, carried: data.run ? data.run.carried : [] } });
if (file) print(await send({ what: "add", body: file.split("/").at(-1), file: file.split("/").at(-1), content: new Uint8Array(readFileSync(file)) }));
for (const [what, body] of JSON.parse(readFileSync(questions, "utf8"))) {
  if (what === "ended") { // cancel a question while it is being answered
    const answer = send({ what: "run", body: JSON.stringify(body) });
    onmessage({ data: { end: last } });
    print(await answer);
  } else print(await send({ what, body: typeof body === "string" ? body : JSON.stringify(body) }));
}
process.exit(0);
