/**
 * Arguments of programs, checked before they are sent. A node ends the session of a frame that it cannot read, and sent
 * again it would end the next one too, for all streams of the client.
 */
import { clientError } from './error.ts';
import type { StreamPath, WireOptions } from './wire.ts';

/** Nodes take no longer names. With options that are as long as they may be, there is still room beside a body. */
const NAME_CHARS_MAX = 1024;
const OPTION_CHARS_MAX = 4096;
/** As a header of HTTP has it. */
const HEADER_TEXT = /^[\t -~\u0080-\u00ff]*$/;

export function bytesOf(data: Uint8Array | string): Uint8Array {
  const bytes = asBytes(data);
  if (bytes === undefined)
    throw clientError('INVALID_ARGUMENT', `data is ${nameOf(data)}; it must be a Uint8Array or text`);
  return bytes;
}

/** Undefined: it is neither bytes nor text. */
export function asBytes(given: unknown): Uint8Array | undefined {
  if (typeof given === 'string') return new TextEncoder().encode(given);
  if (given instanceof Uint8Array) return given;
  // One of another realm, as a context of `vm` or jsdom, is an instance of that realm's class.
  if (!ArrayBuffer.isView(given) || Object.prototype.toString.call(given) !== '[object Uint8Array]') return undefined;
  return new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
}

export function checkPath({ bucket, stream }: StreamPath): void {
  for (const part of [bucket, stream]) {
    const name: unknown = part;
    // A half of a surrogate pair would be replaced, and the stream be another one.
    if (typeof name === 'string' && name.length <= NAME_CHARS_MAX && !/^\.{0,2}$|\p{Surrogate}/u.test(name)) continue;
    const sentence = `${nameOf(name)} cannot be the name of a bucket or stream`;
    throw clientError(
      'INVALID_ARGUMENT',
      `${sentence}; write text of 1 to ${NAME_CHARS_MAX} characters, but not "." or ".."`,
    );
  }
}

/** By their names in the HTTP API. */
export function checkOptions(options: WireOptions): void {
  const entries: readonly (readonly [string, unknown])[] = Object.entries(options);
  for (const [name, value] of entries) {
    if (isHeaderText(value) && String(value).length <= OPTION_CHARS_MAX) continue;
    if (typeof value === 'boolean') continue;
    if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) continue;
    const wanted =
      typeof value === 'number'
        ? 'a whole number from 0'
        : `text of a header, of at most ${OPTION_CHARS_MAX} characters`;
    throw clientError('INVALID_ARGUMENT', `${name} is ${nameOf(value)}; it must be ${wanted}`);
  }
}

export function isHeaderText(value: unknown): boolean {
  return typeof value === 'string' && HEADER_TEXT.test(value);
}

function nameOf(value: unknown): string {
  if (typeof value === 'number' || value === null || value === undefined) return String(value);
  if (typeof value !== 'string') return `of the type ${typeof value}`;
  return value.length > 100 ? `text of ${value.length} characters` : JSON.stringify(value);
}
