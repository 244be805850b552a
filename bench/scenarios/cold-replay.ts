// Catch-up reads of streams whose bytes lie in an S3 server on the same machine, against a plain loop of the SDK that
// reads the same objects from the same server with the same concurrency.

import { GetObjectCommand, ListObjectsV2Command, type S3Client } from '@aws-sdk/client-s3';
import { setTimeout as sleep } from 'node:timers/promises';
import { Ceph, cephMissing } from '../../test/support/ceph.ts';
import { HttpExchange } from '../load/exchange.ts';
import { check, type ScenarioReport } from '../report.ts';
import { type LoadResult, summarize } from '../stats.ts';
import { type ColdNode, startColdNode } from '../targets/cold-node.ts';
import { streamPath } from '../targets/target.ts';
import { alternate, compare, rowsOf, type Context, type Scenario } from './scenario.ts';

const NAME = 'cold-replay';
const MIB = 1024 * 1024;
const LANES = 8;
const CONTENT_TYPE = 'application/octet-stream';
const BUCKET = 'bench';
const RETRY_MS = 50;

/** The work of one lane: a sample for each answer. */
interface Tally {
  readonly samples: number[];
  bytes: number;
}

async function fill(node: ColdNode, paths: readonly string[], mibPerStream: number): Promise<void> {
  const body = Buffer.alloc(MIB, 'cold');
  await Promise.all(
    paths.map(async (path) => {
      const exchange = await HttpExchange.open(node.port);
      const insist = async (method: string, payload?: Buffer): Promise<void> => {
        for (;;) {
          const { status } = await exchange.request(method, path, CONTENT_TYPE, payload);
          if (status < 300) return;
          // Not yet a leader, or more hot bytes than a group may have: both end by themselves.
          if (status !== 503) throw new Error(`${method} ${path} answered ${status}`);
          await sleep(RETRY_MS);
        }
      };
      await insist('PUT');
      for (let i = 0; i < mibPerStream; i++) await insist('POST', body);
      exchange.close();
    }),
  );
  await node.allCold();
}

async function replay(node: ColdNode, path: string, expectedBytes: number, tally: Tally): Promise<void> {
  const exchange = await HttpExchange.open(node.port);
  let offset = '-1';
  for (let bytes = 0; bytes < expectedBytes;) {
    const startMs = performance.now();
    const answer = await exchange.request('GET', `${path}?offset=${offset}`);
    const next = /\r\nstream-next-offset: *(\S+)/i.exec(answer.headers)?.[1];
    if (answer.status !== 200 || next === undefined) throw new Error(`${path} answered ${answer.status}`);
    tally.samples.push(performance.now() - startMs);
    bytes += answer.body.length;
    tally.bytes += answer.body.length;
    offset = next;
  }
  exchange.close();
}

async function listAll(client: S3Client): Promise<string[]> {
  const keys: string[] = [];
  for (;;) {
    const after = keys.at(-1);
    const page = await client.send(
      new ListObjectsV2Command({ Bucket: BUCKET, Prefix: 'g', ...(after === undefined ? {} : { StartAfter: after }) }),
    );
    for (const { Key } of page.Contents ?? []) if (Key !== undefined) keys.push(Key);
    if (page.IsTruncated !== true) return keys;
  }
}

/** Takes objects from one list, LANES at a time. */
async function plainLoop(client: S3Client, keys: readonly string[], tally: Tally): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < keys.length) {
      const key = keys[next++] as string;
      const startMs = performance.now();
      const answer = await client.send(new GetObjectCommand({ Bucket: BUCKET, Key: key }));
      const bytes = await answer.Body?.transformToByteArray();
      tally.samples.push(performance.now() - startMs);
      tally.bytes += bytes?.length ?? 0;
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

async function timed(work: (tally: Tally) => Promise<void>): Promise<LoadResult> {
  const tally: Tally = { samples: [], bytes: 0 };
  const startMs = performance.now();
  await work(tally);
  const seconds = (performance.now() - startMs) / 1000;
  return {
    ratePerSecond: tally.samples.length / seconds,
    bytesPerSecond: tally.bytes / seconds,
    ...summarize(Float64Array.from(tally.samples)),
    requests: tally.samples.length,
    failed: 0,
    failures: '',
  };
}

async function run(context: Context): Promise<ScenarioReport[]> {
  const missing = cephMissing();
  if (missing !== undefined) {
    context.notRun(`${NAME}: ${missing}`);
    return [];
  }
  const mibPerStream = context.smoke ? 2 : 128;
  const paths = Array.from({ length: LANES }, (_, i) => streamPath(`cold-${i}`));
  const ceph = await Ceph.start({ bucket: BUCKET });
  const client = ceph.client();
  let node: ColdNode | undefined;
  try {
    const started = (node = await startColdNode(context.start, ceph.coldToml(BUCKET)));
    await fill(started, paths, mibPerStream);
    const keys = await listAll(client);
    const contestants = [{ name: 'millrace' }, { name: 'plain-sdk' }] as const;
    const measure = (name: string): Promise<LoadResult> =>
      timed(async (tally) => {
        if (name === 'plain-sdk') await plainLoop(client, keys, tally);
        else await Promise.all(paths.map((path) => replay(started, path, mibPerStream * MIB, tally)));
      });
    if (!context.smoke) await measure('plain-sdk');
    const rounds = await alternate(context, contestants, ({ name }) => measure(name));
    return [
      {
        scenario: NAME,
        title: `${LANES} clients replay ${mibPerStream} MiB each from an S3 server (Ceph, in memory) on this machine`,
        rateUnit: 'MB/s',
        rows: rowsOf(rounds),
        checks: compare(
          rounds,
          'millrace',
          'plain-sdk',
          (result) => result.bytesPerSecond,
          (ratio) => check('bytes/s / plain-sdk', ratio, 'x', { atLeast: 0.5 }),
        ),
        notes: [
          `${keys.length} objects; the cache (256 MiB) holds a part of what is read, so every round reads from the store`,
        ],
      },
    ];
  } finally {
    client.destroy();
    await node?.stop();
    await ceph.stop();
  }
}

export const coldReplay: Scenario = { name: NAME, summary: '8 clients replay 1 GiB from an S3 server', run };
