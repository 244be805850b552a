/** A stream of the client as a source and as a sink of Web Streams, so that `fetch`, files and transforms pipe from and into it. */
import { asBytes } from './arguments.ts';
import { type FollowOptions, type MillraceStream, StreamError, type WaitOptions } from './client.ts';
import { readableOf } from './readable.ts';
import { raced } from './waiting.ts';

export interface WritableOptions {
  /** Closing the writer closes the stream too, so that readers end. Left out: the stream stays open for other writers. */
  readonly closeStream?: boolean;
}

/**
 * The bytes of a stream, from `offset` on, then what comes. Each chunk is what `follow` yields, so on JSON streams the text of
 * an array. It takes from the node only what its reader takes.
 *
 * Ends behind the last bytes of a closed stream, or at the tail with `live: false`. Errors with the StreamError or the reason of
 * the signal that `follow` would throw. Cancelling it ends the follower.
 */
export function createReadableStream(
  stream: MillraceStream,
  options: FollowOptions = {},
): ReadableStream<Uint8Array<ArrayBuffer>> {
  return readableOf(async function* bytes(signal) {
    // Bytes of the node share a buffer, which consumers may transfer to other threads.
    for await (const { data } of stream.follow({ ...options, signal })) yield new Uint8Array(data);
  }, options.signal);
}

/**
 * Appends what is written to it: each chunk, bytes or text, is one append, and an empty one is none. On JSON streams a chunk is the
 * text of one record or of an array of them. Text that was cut anywhere passes a TextEncoderStream before, which keeps characters whole.
 *
 * A write resolves when the client has a copy of the chunk, which waits for room as `ready()` does; the promise of `close()` resolves
 * when everything that was written is durable. A refused append errors it with its StreamError. Aborting drops what was not
 * taken yet and leaves the stream open; what was taken may still be appended.
 */
export function createWritableStream(
  stream: MillraceStream,
  { closeStream = false }: WritableOptions = {},
): WritableStream<Uint8Array | string> {
  const appends = new Set<Promise<unknown>>();
  let wait: WaitOptions = {};
  return new WritableStream<Uint8Array | string>({
    start(controller) {
      // The types of Node leave it out.
      const { signal }: AbortableController = controller;
      if (signal !== undefined) wait = { signal };
    },
    async write(chunk, controller) {
      const bytes = bytesOf(chunk);
      if (bytes.length === 0) return;
      // The caller may reuse its memory once this resolves, which is before the append is durable.
      const append = stream.append(new Uint8Array(bytes));
      appends.add(append);
      append.then(
        () => appends.delete(append),
        (error: unknown) => controller.error(error),
      );
      await stream.ready(wait);
    },
    async close() {
      // Refused ones are still among them: an error of the controller comes too late while it closes.
      await raced(Promise.all(appends), wait.signal === undefined ? [] : [wait.signal]);
      if (closeStream) await stream.close('', wait);
    },
  });
}

interface AbortableController {
  readonly signal?: AbortSignal;
  error(reason: unknown): void;
}

function bytesOf(chunk: unknown): Uint8Array {
  const bytes = asBytes(chunk);
  if (bytes !== undefined) return bytes;
  const sentence = `a chunk is a Uint8Array or text, not ${chunk === null ? 'null' : typeof chunk}`;
  throw new StreamError({ status: 0, code: 'INVALID_ARGUMENT', sentence });
}
