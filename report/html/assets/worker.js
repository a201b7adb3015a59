"use strict";
// The worker of a page without a server. It runs the simulator and forwards questions and answers. The simulator can read
// only the files that the page sends. Go's wasm_exec.js precedes this script, and reads the files through fs.
const files = new Map(), opened = new Map();
let lastFile = 2, lastWords = "", whenBegun;

const replayFiles = (() => {
  const failed = (code) => Object.assign(new Error(code), { code });
  const refuse = (code) => (...all) => all.at(-1)(failed(code));
  const describe = (content) => ({
    dev: 0, ino: 0, mode: 0o100444, nlink: 1, uid: 0, gid: 0, rdev: 0, size: content.length, blksize: 4096, blocks: Math.ceil(content.length / 512),
    atimeMs: 0, mtimeMs: 0, ctimeMs: 0, isDirectory: () => false,
  });
  const about = (content, code, done) => content ? done(null, describe(content)) : done(failed(code));
  const decoder = new TextDecoder();
  const refused = ["chmod", "chown", "fchmod", "fchown", "ftruncate", "lchown", "link", "mkdir", "readlink", "rename", "rmdir", "symlink", "truncate", "unlink", "utimes"];
  return {
    constants: { O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_EXCL: 128, O_TRUNC: 512, O_APPEND: 1024, O_DIRECTORY: 65536 },
    // The output of Go is kept, because it has the reason if the simulator crashes.
    writeSync: (fd, bytes) => { lastWords = (lastWords + decoder.decode(bytes)).slice(0, 2000); return bytes.length; },
    write: (fd, bytes, offset, length, position, done) => done(null, replayFiles.writeSync(fd, bytes)),
    open: (path, flags, mode, done) => {
      const content = files.get(path);
      if (!content) done(failed("ENOENT"));
      else if (flags & 3) done(failed("EACCES"));
      else { opened.set(++lastFile, { content, at: 0 }); done(null, lastFile); }
    },
    close: (fd, done) => opened.delete(fd) ? done(null) : done(failed("EBADF")),
    fsync: (fd, done) => done(null),
    stat: (path, done) => about(files.get(path), "ENOENT", done),
    lstat: (path, done) => about(files.get(path), "ENOENT", done),
    fstat: (fd, done) => about(opened.get(fd)?.content, "EBADF", done),
    readdir: refuse("ENOTDIR"),
    read: (fd, into, offset, length, position, done) => {
      const file = opened.get(fd);
      if (!file) { done(failed("EBADF")); return; }
      const from = position ?? file.at, part = file.content.subarray(from, from + length);
      into.set(part, offset);
      if (position === null || position === undefined) file.at += part.length;
      done(null, part.length);
    },
    ...Object.fromEntries(refused.map((name) => [name, refuse("EACCES")])),
  };
})();

// Functions that the simulator calls.
const adding = new Map(); // names of files that the simulator is checking, by number of the question
const replayAnswer = (number, ok, text) => {
  if (!ok) files.delete(adding.get(number));
  adding.delete(number);
  postMessage({ number, ok, text });
};
const replayBegun = () => whenBegun();
const replayRest = (() => {
  const { port1, port2 } = new MessageChannel();
  let rested;
  port1.onmessage = () => rested();
  return (wake) => { rested = wake; port2.postMessage(null); };
})();
Object.assign(globalThis, { fs: replayFiles, replayAnswer, replayBegun, replayRest });

const unpack = (base64) => {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
};
const begin = async ({ program, packed, traces, carried }) => {
  Object.assign(globalThis, { replayTraces: traces, replayCarried: carried });
  for (const { name, base64 } of packed) files.set(name, new Uint8Array(await new Response(unpack(base64)).arrayBuffer()));
  const go = new Go();
  go.exit = () => {};
  const { instance } = await WebAssembly.instantiateStreaming(new Response(unpack(program), { headers: { "Content-Type": "application/wasm" } }), go.importObject);
  const begun = new Promise((done) => { whenBegun = done; });
  const ended = () => postMessage({ ended: lastWords.split("\n")[0] || "it ran out of memory" });
  go.run(instance).then(ended, ended);
  await begun;
};

let ready = null;
const take = async ({ number, what, body, file, content, end }) => {
  try { await ready; } catch (e) { if (number) replayAnswer(number, false, JSON.stringify({ error: `this browser cannot run the simulator: ${e.message}` })); return; }
  if (end) { replayEnd(end); return; }
  if (content) {
    if (files.has(file)) { replayAnswer(number, false, JSON.stringify({ error: `${file}: is there already` })); return; }
    files.set(file, content);
    adding.set(number, file);
  }
  replayAsk(number, what, body);
};
onmessage = ({ data }) => {
  if (data.program) ready = begin(data);
  else take(data);
};
