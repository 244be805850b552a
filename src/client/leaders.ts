/**
 * Which node leads a stream, as the node that a session is with tells. Appends that go there at once save a hop; it is a
 * hint, and every node takes every request.
 */
/** LEADERS of a node: for each group the URL of the node that leads it, as far as it is known. */
export type Leaders = readonly (string | undefined)[];

const FNV_BASIS = 0xcbf2_9ce4_8422_2325n;
const FNV_PRIME = 0x100_0000_01b3n;

/** The hash from which the group of a stream follows: 64-bit FNV-1a. It never changes. */
export function placeOf({ bucket, stream }: Readonly<Record<'bucket' | 'stream', string>>): bigint {
  let hash = FNV_BASIS;
  for (const byte of new TextEncoder().encode(`${bucket}/${stream}`))
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * FNV_PRIME);
  return hash;
}

export function leaderOf(leaders: Leaders, place: bigint): string | undefined {
  return leaders.length === 0 ? undefined : leaders[Number(place % BigInt(leaders.length))];
}
