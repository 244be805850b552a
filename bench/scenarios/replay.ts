// Catch-up reads: many clients read a whole stream from the start, over and over.

import { withCpu } from '../cpu.ts';
import { HttpExchange } from '../load/exchange.ts';
import { runLanes, type SetupRequest } from '../load/streams.ts';
import { runWrk, wrkMissing, writePaths } from '../load/wrk.ts';
import { pairsOf } from '../pair.ts';
import { check, type ScenarioReport } from '../report.ts';
import type { LoadResult } from '../stats.ts';
import { bare } from '../targets/bare.ts';
import { millrace, millraceBefore } from '../targets/millrace.ts';
import { referenceMemory } from '../targets/reference.ts';
import { streamPath, type Running } from '../targets/target.ts';
import { alternate, compare, rowsOf, selectTargets, withTargets, type Context, type Scenario } from './scenario.ts';

const NAME = 'replay';
const APPEND_BYTES = 1024;
const CONTENT_TYPE = 'application/octet-stream';
/** A replay that needs more requests than this is not progressing. */
const PAGES_MAX = 1000;

/** The requests that read one stream to its tail. A server may answer in pages: then a replay is several requests. */
async function pagesOf(target: Running, path: string, expectedBytes: number): Promise<string[]> {
  if (target.name === 'bare') return [`${path}?bytes=${expectedBytes}`];
  const exchange = await HttpExchange.open(target.port);
  const pages: string[] = [];
  let readBytes = 0;
  let offset = '-1';
  while (readBytes < expectedBytes) {
    const page = `${path}?offset=${offset}`;
    const answer = await exchange.request('GET', page);
    const next = /\r\nstream-next-offset: *(\S+)/i.exec(answer.headers)?.[1];
    const sizeBytes = Number(/\r\ncontent-length: *(\d+)/i.exec(answer.headers)?.[1] ?? answer.body.length);
    if (answer.status !== 200 || next === undefined || sizeBytes === 0 || pages.length === PAGES_MAX) {
      throw new Error(`${target.name}: ${page} answered ${answer.status} after ${readBytes} of ${expectedBytes} bytes`);
    }
    pages.push(page);
    readBytes += sizeBytes;
    offset = next;
  }
  exchange.close();
  return pages;
}

/** Fills the streams by appends, as clients would: stored as hundreds of small rows, not as one block. */
async function fill(target: Running, paths: readonly string[], appends: number): Promise<void> {
  const body = Buffer.alloc(APPEND_BYTES, 'r');
  const lanes = paths.map((path): SetupRequest[] => [
    { method: 'PUT', path, contentType: CONTENT_TYPE },
    ...Array.from({ length: appends }, (): SetupRequest => ({ method: 'POST', path, contentType: CONTENT_TYPE, body })),
  ]);
  await runLanes(target.port, lanes);
}

async function run(context: Context): Promise<ScenarioReport[]> {
  const missing = wrkMissing();
  if (missing !== undefined) {
    context.notRun(`${NAME}: ${missing}`);
    return [];
  }
  const [clients, appends] = context.smoke ? [4, 10] : [100, 200];
  const streamBytes = appends * APPEND_BYTES;
  const targets = selectTargets(context, NAME, [millrace, millraceBefore, referenceMemory, bare]);
  const paths = Array.from({ length: clients }, (_, index) => streamPath(`replay-${index}`));
  return await withTargets(context, targets, async (running) => {
    for (const target of running) if (target.name !== 'bare') await fill(target, paths, appends);
    const reports: ScenarioReport[] = [];
    for (const variant of ['one stream each', 'one shared stream'] as const) {
      const read = variant === 'one stream each' ? paths : paths.slice(0, 1);
      const files = new Map<string, string>();
      let pageCount = 0;
      for (const target of running) {
        const pages = (await Promise.all(read.map((path) => pagesOf(target, path, streamBytes)))).flat();
        files.set(target.name, writePaths(context.start.dir, `replay-${target.name}`, pages));
        if (target.name === 'millrace') pageCount = pages.length / read.length;
      }
      const measure = (target: Running, durationMs: number): Promise<LoadResult> =>
        runWrk({
          port: target.port,
          connections: clients,
          mode: 'read',
          args: [files.get(target.name) as string],
          durationMs,
          load: context.load,
        });
      for (const target of running) await measure(target, context.warmUpMs);
      const rounds = await alternate(context, running, (target) =>
        withCpu(target, () => measure(target, context.durationMs)),
      );
      reports.push({
        scenario: NAME,
        title: `${clients} clients read ${streamBytes / 1024} KiB from the start, again and again, ${variant}`,
        rateUnit: 'MB/s',
        rows: rowsOf(rounds),
        checks: compare(
          rounds,
          'millrace',
          'reference-memory',
          (result) => result.bytesPerSecond,
          (ratio) => check('bytes/s / reference-memory', ratio, 'x', { atLeast: 3 }),
        ),
        pairs: pairsOf(rounds),
        notes: pageCount > 1 ? [`millrace answers a replay in ${pageCount} pages; latencies are per page`] : [],
      });
    }
    return reports;
  });
}

export const replay: Scenario = { name: NAME, summary: '100 clients replay 200 KiB each', run };
