/**
 * Keys of objects in the cold store, relative to storage.cold.root, never used twice (invariant 8):
 *
 *   g<group, 4 hex>-<origin, 16 hex>/<bucket>/<i<incarnation, hex> | pack>/<run, 16 hex>-<seq, 12 hex>
 *
 * `origin` is the run of the process that made the group's first upload: a cluster restored from a backup has another
 * one, so the two may share a root. A bucket name that is not a safe path component is reduced to its safe part and a
 * hash.
 */
import { assert } from '../base/assert.ts';
import { hash64Hex } from '../base/hash.ts';
import { OBJECT_KEY_BYTES_MAX } from '../base/limits.ts';
import { encodeUtf8 } from '../base/utf8.ts';
import { planted } from '../base/planted.ts';
import type { ObjectId } from './cold.ts';

/** Origin of a group that has never uploaded anything. */
export const NO_ORIGIN = '0'.repeat(16);

const TAME = /^[a-z0-9_-]{1,64}$/;
const PREFIX_CHARACTERS_MAX = 40;
const KEY =
  /^g[0-9a-f]{4}-([0-9a-f]{16})\/[a-z0-9_-]{1,64}(?:\.[0-9a-f]{16})?\/(?:i[0-9a-f]+|pack)\/([0-9a-f]{16})-([0-9a-f]{12})$/;

function bucketFolder(bucket: string): string {
  if (TAME.test(bucket)) return bucket;
  const prefix = bucket
    .toLowerCase()
    .replace(/[^a-z0-9_-]/g, '_')
    .slice(0, PREFIX_CHARACTERS_MAX);
  // The dot distinguishes it from every safe name.
  return `${prefix}.${hash64Hex([], encodeUtf8(bucket))}`;
}

/** All objects of a group lie under this. */
export function objectPrefix(group: number, origin: string): string {
  return `g${group.toString(16).padStart(4, '0')}-${origin}/`;
}

/** `incarnation`: of the one stream in the object; 0 = several. */
export function objectKey(
  group: number,
  origin: string,
  bucket: string,
  incarnation: number,
  { run, seq }: ObjectId,
): string {
  const kind = incarnation === 0 ? 'pack' : `i${incarnation.toString(16)}`;
  const name = `${run}-${seq.toString(16).padStart(12, '0')}`;
  const key = `${objectPrefix(group, origin)}${bucketFolder(bucket)}/${kind}/${name}`;
  assert(key.length <= OBJECT_KEY_BYTES_MAX, 'an object key is short, whatever the bucket is called');
  return key;
}

/** A group deletes only its own objects: those of the cluster or group that it was restored from are not its own. */
export function isOwnObject(key: string, group: number, origin: string): boolean {
  return key.startsWith(objectPrefix(group, origin));
}

/** Undefined: not a key of ours. */
export function parseObjectKey(key: string): (ObjectId & { readonly origin: string }) | undefined {
  const [, origin, run, seq] = KEY.exec(key) ?? [];
  if (origin === undefined || run === undefined || seq === undefined) {
    return planted('foreign-objects-taken') ? { origin: key.slice(6, 22), run: '0'.repeat(16), seq: 1 } : undefined;
  }
  return { origin, run, seq: Number.parseInt(seq, 16) };
}
