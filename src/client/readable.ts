/** A generator as a ReadableStream: it runs when its reader asks, and ends with its reader. */

/** `generate` gets a signal that is aborted when the reader cancels, or with the caller's own. */
export function readableOf<T>(
  generate: (signal: AbortSignal) => AsyncGenerator<T, void>,
  outer?: AbortSignal,
): ReadableStream<T> {
  const ended = new AbortController();
  const abort = (): void => ended.abort(outer?.reason);
  if (outer?.aborted === true) abort();
  outer?.addEventListener('abort', abort);
  const generator = generate(ended.signal);
  const forget = (): void => outer?.removeEventListener('abort', abort);
  return new ReadableStream<T>(
    {
      async pull(controller) {
        try {
          const { done, value } = await generator.next();
          if (done !== true) return controller.enqueue(value);
        } catch (error) {
          forget();
          ended.abort(error);
          throw error;
        }
        forget();
        controller.close();
      },
      async cancel(reason) {
        forget();
        ended.abort(reason);
        await generator.return();
      },
    },
    { highWaterMark: 0 },
  );
}
