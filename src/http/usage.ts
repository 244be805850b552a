/** GET /__svc/usage: the meters of all groups on this node, summed per bucket (service.md "Usage report"). */
import { USAGE_VERSION, WRITE_UNIT_BYTES } from '../base/limits.ts';
import { OP_USAGE, newRequest } from '../wire/request.ts';
import { compareNames } from './bucket.ts';
import { Gathering } from './gather.ts';
import type { Plane } from './plane.ts';
import type { Responder } from './respond.ts';
import { type Part, askAllShards, firstRefusal } from './scatter.ts';
import type { UwsResponse } from './uws.ts';

const METERS = [
  'committed_append_bytes',
  'committed_records',
  'committed_write_units',
  'retained_bytes',
  'stream_count',
] as const;

type Meters = Record<(typeof METERS)[number], number>;

export function handleUsage(plane: Plane, res: UwsResponse, responder: Responder, startedMs: number): void {
  const gathering = new Gathering(plane, res, responder, 'other', startedMs);
  const query = newRequest();
  query.op = OP_USAGE;
  askAllShards(plane.ctx.gateway, query, (parts) => {
    const refused = firstRefusal(parts);
    if (refused !== undefined) return gathering.refuse(refused.code, refused.text);
    return gathering.guard(() => gathering.json(200, mergeUsage(parts)));
  });
}

export function mergeUsage(parts: readonly Part[]): Record<string, unknown> {
  const sums = new Map<string, Meters>();
  for (const part of parts) {
    const { buckets } = JSON.parse(part.body) as { buckets: Record<string, Partial<Meters>> };
    for (const [bucket, meters] of Object.entries(buckets)) {
      const sum = sums.get(bucket) ?? newMeters();
      for (const meter of METERS) sum[meter] += meters[meter] ?? 0;
      sums.set(bucket, sum);
    }
  }
  const names = [...sums.keys()].sort(compareNames);
  return {
    version: USAGE_VERSION,
    write_unit_bytes: WRITE_UNIT_BYTES,
    // fromEntries defines members, so a bucket called __proto__ is only a name.
    buckets: Object.fromEntries(names.map((name) => [name, sums.get(name)])),
  };
}

function newMeters(): Meters {
  return {
    committed_append_bytes: 0,
    committed_records: 0,
    committed_write_units: 0,
    retained_bytes: 0,
    stream_count: 0,
  };
}
