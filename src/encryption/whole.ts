/** Whole files of the age format: bytes at once, and streams of pieces through bounded memory. */
import { Buffer } from 'node:buffer';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { type Age, AgeError, type NewFile, HEADER_BYTES_MAX, isAge } from './age.ts';
import { CHUNK_BYTES, type Payload, SALT_BYTES, SEALED_CHUNK_BYTES, sealedSize } from './payload.ts';

const ALTERED = 'a part of it is not what was written, or not at its place';

export async function sealBytes(age: Age, bytes: Uint8Array): Promise<Uint8Array> {
  const { front, payload } = await age.begin();
  const sealed = new Uint8Array(Buffer.allocUnsafeSlow(front.length + sealedSize(bytes.length)).buffer);
  sealed.set(front);
  let at = front.length;
  let from = 0;
  for (let index = 0; ; index++) {
    const to = Math.min(bytes.length, from + CHUNK_BYTES);
    const place = to === bytes.length ? 'last' : 'inner';
    at = payload.seal({ index, place }, bytes.subarray(from, to), sealed, at);
    if (place === 'last') return sealed;
    from = to;
  }
}

/** Throws AgeError for what is not whole, or no file of age. */
export async function openBytes(age: Age, sealed: Uint8Array): Promise<Uint8Array> {
  return await buffer(openPieces(age, Readable.from([sealed])));
}

/** Encrypts pieces on their way. An exception of theirs passes. */
export async function* sealPieces(age: Age, pieces: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  const { front, payload }: NewFile = await age.begin();
  yield front;
  const held = new Uint8Array(CHUNK_BYTES);
  let heldBytes = 0;
  let index = 0;
  const seal = (place: 'inner' | 'last'): Uint8Array => {
    const sealed = new Uint8Array(sealedSize(heldBytes));
    payload.seal({ index: index++, place }, held.subarray(0, heldBytes), sealed, 0);
    heldBytes = 0;
    return sealed;
  };
  for await (const piece of pieces) {
    for (let from = 0; from < piece.length;) {
      // Only when more comes: the last chunk is not empty, unless there is nothing.
      if (heldBytes === CHUNK_BYTES) yield seal('inner');
      const part = piece.subarray(from, from + CHUNK_BYTES - heldBytes);
      held.set(part, heldBytes);
      heldBytes += part.length;
      from += part.length;
    }
  }
  yield seal('last');
}

/** Decrypts pieces on their way. Nothing of a chunk is passed on before it is verified. Throws AgeError. */
export async function* openPieces(age: Age, pieces: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  let held: Uint8Array = new Uint8Array();
  let payload: Payload | undefined;
  let index = 0;
  for await (const piece of pieces) {
    held = held.length === 0 ? piece : Buffer.concat([held, piece]);
    if (payload === undefined) {
      // Enough for every header, or all there is.
      if (held.length < HEADER_BYTES_MAX + SALT_BYTES) continue;
      ({ payload, held } = await begun(age, held));
    }
    let at = 0;
    // The last chunk stays until the end shows that it is the last.
    for (; held.length - at > SEALED_CHUNK_BYTES; at += SEALED_CHUNK_BYTES)
      yield verified(payload.open(index++, 'inner', held.subarray(at, at + SEALED_CHUNK_BYTES)));
    held = held.subarray(at);
  }
  if (payload === undefined) ({ payload, held } = await begun(age, held));
  for (; held.length > SEALED_CHUNK_BYTES; held = held.subarray(SEALED_CHUNK_BYTES))
    yield verified(payload.open(index++, 'inner', held.subarray(0, SEALED_CHUNK_BYTES)));
  const last = verified(payload.open(index, 'last', held));
  if (last.length === 0 && index > 0) throw new AgeError('altered', ALTERED);
  yield last;
}

async function begun(age: Age, held: Uint8Array): Promise<{ payload: Payload; held: Uint8Array }> {
  if (!isAge(held)) throw new AgeError('altered', 'it is not encrypted in the age format');
  const { payload, chunksAt } = await age.open(held);
  return { payload, held: held.subarray(chunksAt) };
}

function verified(chunk: Uint8Array | undefined): Uint8Array {
  if (chunk === undefined) throw new AgeError('altered', ALTERED);
  return chunk;
}
