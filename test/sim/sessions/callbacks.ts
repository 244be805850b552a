/** Callbacks of an event loop that does not run: sessions ask for the end of the one that they are in. */
export function callback(work: () => void): void {
  const later = globalThis.queueMicrotask;
  const due: (() => void)[] = [];
  globalThis.queueMicrotask = (run) => void due.push(run);
  try {
    work();
    for (let run = due.shift(); run !== undefined; run = due.shift()) run();
  } finally {
    globalThis.queueMicrotask = later;
  }
}
