// A program some of whose threads throw before they run their own code.

/** The environment for it; `which` is an expression over the thread's `workerData`. */
export function failingThreads(which: string): Readonly<Record<string, string>> {
  const code = `import { isMainThread, workerData } from 'node:worker_threads';
    if (!isMainThread && (${which})) throw new Error('planted: this thread does not start');`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` };
}
