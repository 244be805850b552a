/**
 * Payloads that can be told apart: a text append is `(token|filler)`, a JSON append is records `"token.k|filler"`.
 * Tokens are unique in a run.
 */
import { Buffer } from 'node:buffer';

/** Longer than any token with its prefix. */
const LOOK_BYTES = 40;

export function textPayload(token: string, fillerBytes: number): Uint8Array {
  return new Uint8Array(Buffer.from(`(${token}|${'.'.repeat(fillerBytes)})`, 'latin1'));
}

export function jsonRecord(token: string, k: number, fillerBytes: number): string {
  return `${token}.${k}|${'.'.repeat(fillerBytes)}`;
}

export function jsonPayload(token: string, records: number, fillerBytes: number): Uint8Array {
  const all = Array.from({ length: records }, (_, k) => jsonRecord(token, k, fillerBytes));
  return new Uint8Array(Buffer.from(JSON.stringify(all), 'latin1'));
}

/** The token of a payload in the log. */
export function tokenOf(bytes: Uint8Array, at: number, size: number): string {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset + at, Math.min(size, LOOK_BYTES)).toString('latin1');
  return /[a-z]\d+\.\d+/.exec(text)?.[0] ?? '';
}

/** An array of JSON as a stream shows it. */
export function parseArray<T>(text: string, fail: (what: string) => never): T[] {
  try {
    return JSON.parse(text) as T[];
  } catch (error) {
    return fail(`no JSON (${String(error)}): ${text.slice(0, 60)}`);
  }
}
