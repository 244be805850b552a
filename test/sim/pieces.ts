/**
 * Checks reads of a stream that is removed and created again: its incarnation is unknown, but it holds complete appends
 * of this very stream, each once.
 */
import { Buffer } from 'node:buffer';
import type { SimStream } from './clients.ts';
import { jsonRecord, parseArray } from './tokens.ts';

/** `body` begins with the stream and may end anywhere. */
export function checkPieces({ json, name, history }: SimStream, body: Uint8Array, fail: (what: string) => never): void {
  const text = Buffer.from(body).toString('latin1');
  const seen = new Set<string>();
  const once = (token: string): void => {
    if (seen.has(token)) fail(`${token} is there twice in ${name}`);
    seen.add(token);
  };
  if (!json) {
    let at = 0;
    for (const [piece, token = ''] of text.matchAll(/\(([a-z0-9.]+)\|\.*\)/g)) {
      if (text.indexOf(piece, at) !== at) break;
      at += piece.length;
      if (history.ops.get(token)?.size !== piece.length) fail(`${piece.slice(0, 40)} is no append of ${name}`);
      once(token);
    }
    // A read may end inside an append, which must then have begun.
    if (!/^(\([^()]*)?$/.test(text.slice(at)))
      fail(`bytes from nowhere at ${at} in ${name}: ${text.slice(at, at + 60)}`);
    return;
  }
  if (body.length === 0) return;
  for (const record of parseArray<string>(text, fail)) {
    const [, token = '', k = ''] = /^([a-z]\d+\.\d+)\.(\d+)\|/.exec(record) ?? [];
    const op = history.ops.get(token);
    if (op === undefined || record !== jsonRecord(token, Number(k), op.fillerBytes))
      fail(`${record.slice(0, 40)} is no record of ${name}`);
    once(`${token}.${k}`);
  }
}
