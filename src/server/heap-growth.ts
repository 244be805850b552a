/** How much garbage V8's heaps may hold: several times what lives in small ones, as much as lives in large ones. */
import { readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import type { Runtime } from '../base/runtime.ts';

/**
 * Garbage that may accumulate in the old generation, in percent of the live size. By default
 * V8 allows about half: it collects a small heap early because the pause is short, and ignores
 * the cost on helper threads. See README.md, Threads.
 */
const SMALL_HEAP_PERCENT = 300;
/** A shard with a million streams keeps 150 MB alive: 300 % cost 200 MB more than 100 %, no append became faster. */
const LARGE_HEAP_PERCENT = 100;
/** Memory of the process, without mapped files and caches. A busy node with 1,000 streams has 200 to 300 MiB. */
const LARGE_BYTES = 384 * 1024 * 1024;
/** Back to small only well below, or the measure would undo itself. */
const SMALL_BYTES = 256 * 1024 * 1024;
/** A heap needs longer than this to grow by so much. */
const CHECK_MS = 2_000;

type Size = 'small' | 'large';

function allowGarbage(size: Size): void {
  const percent = size === 'small' ? SMALL_HEAP_PERCENT : LARGE_HEAP_PERCENT;
  // All heaps of the process obey it at their next collection.
  setFlagsFromString(`--heap-growing-percent=${percent}`);
}

interface HeapSizeOptions {
  readonly runtime: Pick<Runtime, 'setTimer'>;
  /** Bytes of caches in buffers beside the heaps: a full cache of the cold store alone is as large as a large heap. */
  readonly cachedBytes: () => number;
  readonly processBytes?: typeof anonymousBytes;
  readonly allow?: (size: Size) => void;
}

/**
 * Allows garbage as to a small process, and follows its memory where the system reports it. Begins when the shards serve:
 * Node and the bundles have code caches, which V8 refuses from the first change of its flags on.
 */
export function followHeapSize({
  runtime,
  cachedBytes,
  processBytes = anonymousBytes,
  allow = allowGarbage,
}: HeapSizeOptions): void {
  let size: Size = 'small';
  allow(size);
  const check = (): void => {
    const bytes = processBytes();
    // Not while all file descriptors are in use.
    if (bytes !== undefined) {
      const next = bytes - cachedBytes() > (size === 'small' ? LARGE_BYTES : SMALL_BYTES) ? 'large' : 'small';
      if (next !== size) allow(next);
      size = next;
    }
    runtime.setTimer(CHECK_MS, check);
  };
  if (processBytes() !== undefined) check();
}

/** Undefined where the system does not say. @internal */
export function anonymousBytes(): number | undefined {
  try {
    const [, kib] = /^RssAnon:\s+(\d+) kB/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
    return kib === undefined ? undefined : Number(kib) * 1024;
  } catch {
    return undefined;
  }
}
