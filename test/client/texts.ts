// Streams of text that a test writes and reads, piece by piece.
import assert from 'node:assert/strict';

export interface WritableText {
  readonly readable: ReadableStream<string>;
  /** Why it was cancelled, once it was. */
  readonly cancelled: Promise<unknown>;
  write(...pieces: readonly string[]): void;
  close(): void;
  fail(error: Error): void;
}

export function writableText(): WritableText {
  let controller: ReadableStreamDefaultController<string> | undefined;
  let onCancel: (reason: unknown) => void = () => undefined;
  const cancelled = new Promise<unknown>((resolve) => (onCancel = resolve));
  const readable = new ReadableStream<string>({
    start: (own) => void (controller = own),
    cancel: (reason) => onCancel(reason),
  });
  return {
    readable,
    cancelled,
    write: (...pieces) => pieces.forEach((piece) => controller?.enqueue(piece)),
    close: () => controller?.close(),
    fail: (error) => controller?.error(error),
  };
}

export async function readPiece(stream: ReadableStream<string>): Promise<string> {
  const reader = stream.getReader();
  const { value } = await reader.read();
  reader.releaseLock();
  return value ?? '';
}

export async function readAll(stream: ReadableStream<string> | null | undefined): Promise<string> {
  assert(stream !== null && stream !== undefined, 'there is a stream');
  let text = '';
  for await (const piece of stream) text += piece;
  return text;
}
