/** A node from its configuration: the stages of its start, in order, and their end. */
import type { Config } from '../config/config.ts';
import { doorWarnings } from '../config/doors.ts';
import { VERSION } from '../config/version.ts';
import type { Logger, NodeLog } from '../logging/logger.ts';
import type { Closed } from '../threads/thread-pool.ts';
import { openTracing } from '../tracing/tracing.ts';
import { claimDataDir } from './claim.ts';
import { startCore } from './core.ts';
import type { StartFacts } from './greeting.ts';
import { type Host, type Opened, closeAll } from './host.ts';
import { type BoundPlanes, openPlanes } from './planes.ts';
import { openRuntime } from './runtime.ts';
import { openServices } from './services.ts';
import type { StartShardThread } from './shards.ts';

/** Accepted requests get this long to be answered when the node stops. */
const STOP_GRACE_MS = 10_000;

export interface LaunchOptions {
  readonly config: Config;
  readonly log: NodeLog;
  /** One tick of Raft, in ms, for tests that want quick elections: ten to twenty ticks without a leader start one. */
  readonly tickMs?: number;
  /** Also for tests, which let a thread serve one node after the other: starting it is most of a node's start. */
  readonly startThread?: StartShardThread;
  /** Runs at once when the node has failed, also during the start. It then answers nothing, and closes itself. */
  readonly onFailure: (error: NodeFailure) => void;
}

export interface LaunchedNode extends StartFacts, BoundPlanes {
  /** Resolves when the node has failed and has closed itself. */
  readonly failed: Promise<void>;
  /** Bytes of caches in buffers beside the heaps. */
  cachedBytes(): number;
  /** Answers what was accepted, within `graceMs`, and closes everything. A second call waits for the first. */
  stop(graceMs?: number): Promise<Closed>;
}

/** A shard failed, so the node must not go on. Acknowledged data is on disk. */
export class NodeFailure extends Error {
  override readonly name = 'NodeFailure';

  constructor(cause: Error) {
    super(cause.message, { cause });
  }
}

/** Starts a node. Rejects with the sentence for the operator, after everything that was opened has been closed. */
export async function launch({ config, log, tickMs, startThread, onFailure }: LaunchOptions): Promise<LaunchedNode> {
  const runtime = openRuntime();
  const opened: Opened = {};
  let failure: NodeFailure | undefined;
  let isServing = false;
  let closing: Promise<Closed> | undefined;
  let hasEnded: () => void = () => undefined;
  const failed = new Promise<void>((resolve) => (hasEnded = resolve));
  const close = (graceMs: number): Promise<Closed> =>
    (closing ??= closeAll(opened, graceMs).finally(() => runtime.close()));
  const unclosed = (error: unknown): void =>
    log.logger('server').warn({ err: error }, 'a part of the node did not close');
  const fail = (error: Error): void => {
    if (failure !== undefined) return;
    failure = new NodeFailure(error);
    onFailure(failure);
    // Fails a start that waits for the shard's answer.
    opened.gateway?.close();
    if (isServing) close(0).catch(unclosed).finally(hasEnded);
  };
  try {
    const host = { log, runtime, startedMs: runtime.monotonicMs(), tickMs, startThread, fail };
    const node = await open(config, host, opened);
    if (failure !== undefined) throw failure;
    isServing = true;
    let stopped: Promise<Closed> | undefined;
    const end = (graceMs: number): Promise<Closed> => stop(log.logger('server'), opened, () => close(graceMs));
    return { ...node, failed, stop: (graceMs = STOP_GRACE_MS) => (stopped ??= end(graceMs)) };
  } catch (error) {
    await close(0).catch(unclosed);
    throw failure ?? error;
  }
}

async function stop(log: Logger, { gateway }: Opened, close: () => Promise<Closed>): Promise<Closed> {
  log.info({ pending: gateway?.pending }, 'stopping: no new requests, open ones are finished');
  const threads = await close();
  if (threads === 'ended') log.info('stopped');
  return threads;
}

async function open(config: Config, host: Host, opened: Opened): Promise<Omit<LaunchedNode, 'failed' | 'stop'>> {
  const { runtime } = host;
  const log = host.log.logger('server');
  for (const sentence of doorWarnings(config)) log.warn(sentence);
  const claim = await claimDataDir(config, log, opened);
  const options = { config, host, claim };
  const core = await startCore(options, opened);
  const services = openServices(options, core);
  opened.services = services;
  const tracing = await openTracing(
    {
      node: { id: config.raft.nodeId, cluster: config.cluster.name, version: VERSION },
      log: host.log.logger('tracing'),
      runtime,
    },
    config.tracing,
  );
  opened.tracing = tracing;
  const { planes, client, admin } = await openPlanes({ config, host, core, services, tracing }, opened);
  const startMs = runtime.monotonicMs() - host.startedMs;
  log.info({ ms: Math.round(startMs) }, 'listening');
  services.start();
  const { shardCount } = claim.layout;
  const { cold, gateway } = core;
  const cachedBytes = (): number => gateway.reads.bytes + (cold?.cachedBytes() ?? 0);
  return { client, admin, shardCount, onDisk: claim.onDisk, startMs, planes, cachedBytes };
}
