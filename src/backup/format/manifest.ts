/** manifest.json: the content of a backup. Written last, so a location without one holds no backup. */
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { BACKUP_FORMAT_VERSION } from '../../base/limits.ts';
import { isTable } from '../../base/scopes.ts';
import type { Lineage } from '../ports.ts';
import { check } from '../../stream/backup/fault.ts';
import type { Location } from './location.ts';

export const MANIFEST = 'manifest.json';
/** A manifest of this format is a shell around an encrypted one (sealed-location.ts). */
export const SEALED_FORMAT_VERSION = 2;
const MANIFEST_BYTES_MAX = 64 * 1024 * 1024;
const CLUSTER_ID = /^[0-9a-f]{32}$/;
/** A part of format 1, word for word. */
const NOTE =
  'Bytes that had been flushed are in the cold store, under the keys that the snapshots name: keep those objects for as long as ' +
  'this backup shall be restorable, and let the restored cluster use the same storage.cold.root, or a copy of it.';

export interface GroupEntry {
  readonly raft_group_id: number;
  readonly object: string;
  readonly bytes: number;
  readonly blake3: string;
  readonly group_commit_index: number;
  readonly buckets: number;
  readonly streams: number;
}

export interface Manifest {
  readonly format_version: number;
  readonly created_unix_ms: number;
  readonly raft_group_count: number;
  readonly groups: readonly GroupEntry[];
  readonly cold_store_note: string;
  /** Identity of the saved cluster; null in manifests of older versions, and for a cluster that has none yet. */
  readonly cluster_id: string | null;
  /** Clusters from whose backups it was restored. */
  readonly restored_from: readonly string[];
}

export function objectName(group: number): string {
  return `group-${String(group).padStart(4, '0')}.snapshot`;
}

/** Whether a file of this name is part of a backup. */
export function isPartOfBackup(name: string): boolean {
  return name === MANIFEST || /^group-\d{4,}\.snapshot$/.test(name);
}

export async function writeManifest(
  location: Location,
  createdUnixMs: number,
  groups: readonly GroupEntry[],
  { cluster_id, restored_from }: Lineage,
): Promise<void> {
  const manifest: Manifest = {
    format_version: BACKUP_FORMAT_VERSION,
    created_unix_ms: createdUnixMs,
    raft_group_count: groups.length,
    groups,
    cold_store_note: NOTE,
    cluster_id,
    restored_from,
  };
  await location.write(MANIFEST, Readable.from([Buffer.from(`${JSON.stringify(manifest, null, 2)}\n`)]));
}

/** Throws a Fault for a manifest that is missing, invalid, incomplete or of a later version. */
export async function readManifest(location: Location): Promise<Manifest> {
  const size = await location.sizeOf(MANIFEST);
  check(size !== undefined, `${location.text} holds no backup: there is no ${MANIFEST}, which is written last`);
  check(size <= MANIFEST_BYTES_MAX, `${MANIFEST} is larger than a manifest can be`);
  return parseManifest(await text(location.read(MANIFEST, size)));
}

export function parseManifest(json: string): Manifest {
  let parsed: unknown;
  try {
    parsed = JSON.parse(json);
  } catch {
    check(false, `${MANIFEST} is not JSON`);
  }
  check(isTable(parsed), `${MANIFEST} is not a manifest`);
  const { format_version: version, raft_group_count: count, groups, created_unix_ms: created } = parsed;
  check(isCount(version) && version >= 1, `${MANIFEST} names no format version`);
  check(
    parsed['encryption'] === undefined,
    'the backup is encrypted: name a file with an identity that it is for (--identity-file)',
  );
  check(
    version <= BACKUP_FORMAT_VERSION,
    `the backup has format version ${version}; this program reads up to ${BACKUP_FORMAT_VERSION}, use a newer one`,
  );
  check(isCount(count) && count > 0 && Array.isArray(groups), `${MANIFEST} lists no groups`);
  check(groups.length === count, `${MANIFEST} lists ${groups.length} of ${count} groups`);
  const entries = groups.map((entry: unknown) => readEntry(entry, count));
  const ids = new Set(entries.map((entry) => entry.raft_group_id));
  check(ids.size === entries.length, `${MANIFEST} lists a group twice`);
  return {
    format_version: version,
    created_unix_ms: isCount(created) ? created : 0,
    raft_group_count: count,
    groups: entries.sort((a, b) => a.raft_group_id - b.raft_group_id),
    cold_store_note: NOTE,
    ...lineageIn(parsed),
  };
}

/** Reads it from a manifest, or from a node's report. Invalid identities are dropped. */
export function lineageIn(found: Readonly<Record<string, unknown>>): Lineage {
  const { cluster_id: id, restored_from: sources } = found;
  const isIdentity = (one: unknown): one is string => typeof one === 'string' && CLUSTER_ID.test(one);
  return {
    cluster_id: isIdentity(id) ? id : null,
    restored_from: Array.isArray(sources) ? sources.filter(isIdentity) : [],
  };
}

function readEntry(entry: unknown, groupCount: number): GroupEntry {
  check(isTable(entry), `${MANIFEST} has an entry that is no group`);
  const { raft_group_id: id, object, bytes, blake3, group_commit_index: index, buckets, streams } = entry;
  check(isCount(id) && id < groupCount, `${MANIFEST} lists a group that cannot be: ${String(id)}`);
  // Names from the file are not used as paths anywhere else.
  check(
    typeof object === 'string' && /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(object),
    `${MANIFEST}: group ${id} has no usable object name`,
  );
  check(typeof blake3 === 'string' && /^[0-9a-f]{64}$/.test(blake3), `${MANIFEST}: group ${id} has no BLAKE3`);
  const counted = isCount(bytes) && isCount(index) && isCount(buckets) && isCount(streams);
  check(counted, `${MANIFEST}: group ${id} lacks a number`);
  return { raft_group_id: id, object, bytes, blake3, group_commit_index: index, buckets, streams };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
