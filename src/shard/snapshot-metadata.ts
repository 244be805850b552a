/** Metadata of a group's snapshot in addition to its message: the usage unit (u32), then addresses. */
import { WRITE_UNIT_BYTES } from '../base/limits.ts';
import { decodeAddresses, encodeAddresses, withAddresses } from '../raft/addresses.ts';
import type { SnapshotMeta, GroupSnapshotRequest } from '../raft/types.ts';

export function encodeMetadata({ configuration }: SnapshotMeta): Uint8Array {
  const addresses = encodeAddresses(configuration);
  const metadata = new Uint8Array(4 + addresses.length);
  new DataView(metadata.buffer).setUint32(0, WRITE_UNIT_BYTES, true);
  metadata.set(addresses, 4);
  return metadata;
}

/** Undefined: invalid metadata, or of a node whose counters use another unit. */
export function withMetadata(message: GroupSnapshotRequest, metadata: Uint8Array): GroupSnapshotRequest | undefined {
  if (metadata.length < 4) return undefined;
  const unit = new DataView(metadata.buffer, metadata.byteOffset, 4).getUint32(0, true);
  const addresses = decodeAddresses(metadata.subarray(4));
  if (unit !== WRITE_UNIT_BYTES || addresses === undefined) return undefined;
  const { snapshot } = message;
  return { ...message, snapshot: { ...snapshot, configuration: withAddresses(snapshot.configuration, addresses) } };
}
