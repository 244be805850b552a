/** The server process: the stages of its start, in order, and the same stages backwards at its end. */
import process from 'node:process';
import { doorWarnings } from '../config/doors.ts';
import { ConfigError } from '../config/error.ts';
import { helpOrVersion, loadConfig } from '../config/load.ts';
import { VERSION } from '../config/version.ts';
import { ListenError } from '../http/listener.ts';
import type { Planes } from '../http/server.ts';
import { HttpLibraryError } from '../http/uws.ts';
import { createLogger } from '../logging/logger.ts';
import { claimDataDir } from './claim.ts';
import { startCore } from './core.ts';
import { greeting } from './greeting.ts';
import { followHeapSize } from './heap-growth.ts';
import { type Node, openPlanes } from './planes.ts';
import { EXIT_CONFIG, EXIT_FAILURE, endOnBug, onSignal, prepareProcess } from './process.ts';
import { Reloads } from './reload.ts';
import { PROCESS_RUNTIME } from './runtime.ts';
import { openServices, startServices, stopServices } from './services.ts';
import { openTracing } from '../tracing/tracing.ts';
import type { Closed } from '../threads/thread-pool.ts';

/** Accepted requests get this long to be answered after SIGTERM. */
const STOP_GRACE_MS = 10_000;

async function main(argv: readonly string[]): Promise<void> {
  const text = helpOrVersion(argv);
  if (text !== undefined) {
    process.stdout.write(text);
    return;
  }
  const config = loadConfig(argv);
  const log = createLogger('server');
  const reloads = new Reloads(argv, config, log);
  endOnBug(log);
  const startedMs = performance.now();
  for (const sentence of doorWarnings(config)) log.warn(sentence);
  const claim = await claimDataDir(config, log);
  const core = await startCore(config, claim, log);
  const services = openServices(config, claim, core);
  const tracing = await openTracing(
    {
      node: { id: config.raft.nodeId, cluster: config.cluster.name, version: VERSION },
      log: createLogger('tracing'),
      runtime: PROCESS_RUNTIME,
    },
    config.tracing,
  );
  const node: Node = { config, core, services, tracing };
  const planes = await openPlanes(node);
  const startMs = performance.now() - startedMs;
  log.info({ ms: Math.round(startMs) }, 'listening');
  process.stdout.write(greeting(config, { shardCount: claim.layout.shardCount, startMs, onDisk: claim.onDisk }));
  startServices(config, services);
  reloads.begin(planes);
  const { cold, gateway } = core;
  followHeapSize({ runtime: PROCESS_RUNTIME, cachedBytes: () => gateway.reads.bytes + (cold?.cachedBytes() ?? 0) });
  onSignal(async () => {
    reloads.end();
    stopServices(services);
    log.info({ pending: core.gateway.pending }, 'stopping: no new requests, open ones are finished');
    const threads = await stop(node, planes);
    if (threads === 'ended') log.info('stopped');
    else log.warn('threads hang on a disk or a cold directory that does not answer, so the process kills itself');
    return threads;
  });
}

async function stop({ core, services, tracing }: Node, planes: Planes): Promise<Closed> {
  await planes.close(STOP_GRACE_MS);
  // Beside the rest: a receiver that hangs must not keep the shards from their checkpoints.
  const traced = tracing.stop();
  services.subscriptions.close();
  await services.backups.stop();
  const shards = await core.shards.stop();
  core.gateway.close();
  const cold = (await core.cold?.close()) ?? 'ended';
  await traced;
  return shards === 'ended' ? cold : shards;
}

prepareProcess();
try {
  await main(process.argv.slice(2));
} catch (error) {
  const known = [ConfigError, ListenError, HttpLibraryError].some((kind) => error instanceof kind);
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  process.stderr.write(`millrace: ${known ? message : (stack ?? message)}\n`);
  process.exit(known ? EXIT_CONFIG : EXIT_FAILURE);
}
