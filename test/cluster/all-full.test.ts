// The disks of all nodes are full, as disks of equal size soon are: no node can take over, so writes are refused with a
// sentence, while deletes pass and bring the cluster back.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type SmallDisk, mountSmallDisk } from '../crash/small-disk.ts';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { type RawResponse, requestOnce } from '../support/raw-client.ts';

const NODES = [1, 2, 3] as const;
const GROUPS = 3;
const DISK_BYTES = 40 * 1024 * 1024;
/** The rest is taken by a file: writing all of it would only cost time. */
const ROOM_BYTES = 10 * 1024 * 1024;
const STREAMS = 9;
/** Streams that stay. */
const KEPT = 2;
const BODY = 'f'.repeat(128 * 1024);
/** In a row, through all nodes to all groups: one may only be a busy moment. */
const REFUSALS = 2 * STREAMS;
const APPENDS_MAX = ROOM_BYTES / BODY.length;
const TEXT = { 'Content-Type': 'text/plain' } as const;

function ask(cluster: TestCluster, turn: number, method: string, path: string, body = ''): Promise<RawResponse> {
  return requestOnce(cluster.node(1 + (turn % NODES.length)).port, method, path, TEXT, body);
}

const said = ({ status, body }: RawResponse): string => `${status} ${body.toString('utf8')}`;

/** Bytes of each stream that were acknowledged. */
async function fillUp(cluster: TestCluster, paths: readonly string[]): Promise<Map<string, number>> {
  const lengths = new Map(paths.map((path) => [path, 0]));
  let refused = 0;
  let taken = 0;
  for (let turn = 0; refused < REFUSALS; turn++) {
    assert(taken < APPENDS_MAX, 'the disks hold less than is written');
    const path = paths[turn % STREAMS] as string;
    // Not in step with the streams, so that each is written through every node.
    const answer = await ask(cluster, Math.floor(turn / STREAMS) + turn, 'POST', path, BODY);
    refused = answer.status === 204 ? 0 : refused + 1;
    if (answer.status === 204) {
      taken++;
      lengths.set(path, (lengths.get(path) as number) + BODY.length);
    } else assert([503, 507].includes(answer.status), said(answer));
  }
  return lengths;
}

async function scenario(cluster: TestCluster, disks: ReadonlyMap<number, SmallDisk>): Promise<void> {
  const paths = Array.from({ length: STREAMS }, (_, i) => `/room/s${i}`);
  for (const path of paths) await cluster.client(1).create(path, TEXT);
  await cluster.settled();
  for (const disk of disks.values()) disk.fill('filler', disk.freeBytes() - ROOM_BYTES);
  const lengths = await fillUp(cluster, paths);
  for (let turn = 0; turn < STREAMS; turn++) {
    let refusal: RawResponse | undefined;
    // A group may be without a leader for a moment, but not permanently.
    await until(`${paths[turn]} is refused for lack of space`, async () => {
      const path = paths[turn] as string;
      refusal = await ask(cluster, turn, 'POST', path, BODY);
      if (refusal.status === 204) lengths.set(path, (lengths.get(path) as number) + BODY.length);
      return refusal.status === 507;
    });
    assert.match(refusal?.headers.get('retry-after') ?? '', /^\d+$/);
  }
  for (const [turn, path] of paths.slice(KEPT).entries()) {
    await until(`${path} is deleted`, async () =>
      // Gone already: by an attempt whose outcome was not known.
      [204, 404].includes((await ask(cluster, turn, 'DELETE', path)).status),
    );
  }
  const tails = new Map<string, string | undefined>();
  for (const [turn, path] of paths.slice(0, KEPT).entries()) {
    await until(`${path} is written again`, async () => {
      const { status, headers } = await ask(cluster, turn, 'POST', path, 'x');
      tails.set(path, headers.get('stream-next-offset'));
      return status === 204;
    });
    // Appends that were not acknowledged may be there as well.
    assert(Number(tails.get(path)) > (lengths.get(path) as number), path);
  }
  await cluster.settled();
  for (const id of cluster.ids) {
    for (const path of paths.slice(0, KEPT)) {
      const head = await cluster.client(id).request('HEAD', path);
      assert.equal(head.headers.get('stream-next-offset'), tails.get(path), `${path} on node ${id}`);
    }
  }
}

test('when all disks are full writes are refused, and deletes give room again', async (t) => {
  const disks = new Map<number, SmallDisk>();
  try {
    for (const id of NODES) {
      const { disk, reason } = await mountSmallDisk(DISK_BYTES);
      if (disk === undefined) return t.skip(reason);
      disks.set(id, disk);
    }
    await withCluster({ process: true, groups: GROUPS, disks }, (cluster) => scenario(cluster, disks));
  } finally {
    for (const disk of disks.values()) await disk.dispose();
  }
});
