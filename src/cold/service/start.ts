/**
 * The cold store at server start: it must prove that it can write, read, list and delete under its root. A permanent
 * failure ends the start with a sentence. A store that does not answer is only a warning: hot data can be served
 * without it, and it is retried until it answers.
 */
import process from 'node:process';
import { COMPACT_RUN_MIN } from '../../base/limits.ts';
import type { Runtime } from '../../base/runtime.ts';
import type { Config } from '../../config/config.ts';
import type { ColdConfig } from '../../config/cold.ts';
import { ConfigError } from '../../config/error.ts';
import type { ColdGraces } from '../../backup/ports.ts';
import { Age, AgeError, type AgeKeys } from '../../encryption/age.ts';
import type { ColdFailure, ColdSettings } from '../ports.ts';
import { assembleRead } from '../../stream/cold/assemble.ts';
import { ReadCollector } from '../../stream/core/collect.ts';
import type { Backend } from '../store/perform.ts';
import { ChunkLoader } from './chunk-loader.ts';
import { prepareDirectory } from './directory-mark.ts';
import { ColdHealth } from './health.ts';
import { ColdReader, NO_READS } from './reader.ts';
import { ColdService, TASKS_PER_THREAD } from './cold-service.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import type { Logger } from '../../logging/logger.ts';
import type { Closed } from '../../threads/thread-pool.ts';

/** Time for running uploads when the server stops; unfinished ones are repeated after the next start. */
const STOP_WAIT_MS = 5000;
/** A directory has no bound of its own; on a hanging network file system callers wait this long. */
const DIRECTORY_TIMEOUT_MS = 30_000;

export interface ColdStore {
  readonly service: ColdService;
  /** Resolves with what lets tasks to come use these. Throws ConfigError for keys that cannot be used. */
  tryKeys(keys: AgeKeys | undefined): Promise<() => void>;
  /** How shards use it, except for the name of their run. */
  readonly use: Omit<ColdSettings, 'run'>;
  /** Starts to answer reads of cold bytes. */
  serve(gateway: Gateway): void;
  /** The member `cold_store` of the metrics, and counters. */
  metrics(): Record<string, unknown>;
  /** Chunks that were read and are kept in memory. */
  cachedBytes(): number;
  close(): Promise<Closed>;
}

export interface ColdHost {
  readonly shardCount: number;
  readonly runtime: Runtime;
  readonly log: Logger;
}

/** Undefined: no cold store is configured. Throws ConfigError when it cannot work. */
export async function startColdStore(config: Config, host: ColdHost): Promise<ColdStore | undefined> {
  const { cold } = config.storage;
  const { shardCount, runtime, log } = host;
  const backend = await backendOf(config.storage.dataDir, cold, runtime);
  if (backend === undefined) return undefined;
  const watched: { health?: ColdHealth } = {};
  await tryKeys(cold.keys);
  const service = new ColdService({
    backend,
    keys: cold.keys,
    runtime,
    onOutcome: (op, outcome) => watched.health?.met(op, outcome),
    timeoutMs: backend.kind === 's3' ? cold.s3.timeoutMs : DIRECTORY_TIMEOUT_MS,
    onError: (error) => log.error({ err: error }, 'a thread of the pool failed; another one takes its place'),
  });
  const health = watch(service, host);
  watched.health = health;
  const proof = await service.run({ op: 'probe' });
  // Permanent failures.
  if (!proof.ok && proof.failure !== 'unreachable') {
    health.stop();
    await service.close(0);
    throw new ConfigError(`storage.cold: ${proof.message}${hint(cold, proof)}`);
  }
  health.start();
  const loader = new ChunkLoader((refs) => service.run({ op: 'get', refs }), cold.cacheBytesMax);
  let reader: ColdReader | undefined;
  return {
    service,
    tryKeys: async (keys) => {
      await tryKeys(keys);
      return () => {
        service.keys = keys;
      };
    },
    use: useOf(cold, shardCount),
    serve: (gateway) => {
      const collector = new ReadCollector();
      reader = new ColdReader({
        loader,
        assemble: (plan, chunks, reply) => assembleRead(plan, chunks, reply, collector),
        send: (request, handler) => gateway.send(request, handler),
        keep: (question, reply) => gateway.reads.keep(question, reply),
        aheadChunks: cold.readAheadChunks,
        log,
        runtime,
      });
      gateway.useCold(reader);
    },
    metrics: () => ({
      cold_store: { ...describe(cold), object_encryption: stateOf(service.keys), ...health.report() },
      cold_pool_tasks: service.tasks,
      cold_pool_bytes: service.bytes,
      ...service.counters,
      ...loader.counters,
      ...(reader?.counters ?? NO_READS),
      cold_cache_bytes: loader.cachedBytes,
      cold_store_reads_waiting: loader.waiting,
      cold_read_pending: reader?.pending ?? 0,
      cold_read_pending_bytes: reader?.pendingBytes ?? 0,
    }),
    cachedBytes: () => loader.cachedBytes,
    close: async () => {
      health.stop();
      return await service.close(STOP_WAIT_MS);
    },
  };
}

/** The metrics without a cold store. */
export const NO_COLD_STORE_METRICS: Readonly<Record<string, unknown>> = {
  cold_store: {
    backend: 'none',
    root: null,
    bucket: null,
    region: null,
    endpoint: null,
    encryption: null,
    object_encryption: null,
  },
};

function watch(service: ColdService, { runtime, log }: ColdHost): ColdHealth {
  return new ColdHealth({
    run: (op) =>
      op === 'probe' ? service.run({ op }) : service.run({ op: 'list', prefix: 'probe/', after: '', limit: 1 }),
    log: (level, fields, sentence) => log[level](fields, sentence),
    runtime,
  });
}

async function backendOf(dataDir: string, cold: ColdConfig, runtime: Runtime): Promise<Backend | undefined> {
  if (cold.backend === 'none') return undefined;
  if (cold.backend === 'dir') {
    await prepareDirectory({ dataDir, directory: cold.dir, root: cold.root, timeoutMs: DIRECTORY_TIMEOUT_MS, runtime });
    return { kind: 'dir', root: cold.root, directory: cold.dir };
  }
  return { kind: 's3', root: cold.root, s3: { ...cold.s3, connections: TASKS_PER_THREAD } };
}

function useOf(cold: ColdConfig, shardCount: number): Omit<ColdSettings, 'run'> {
  return {
    flushIntervalMs: cold.flushIntervalMs,
    flushBytes: cold.flushBytes,
    flushBytesMax: cold.flushBytesMax,
    uploadsMax: Math.max(1, Math.floor(cold.uploadsMax / shardCount)),
    hotBytesMax: cold.maxHotBytesPerGroup,
    gcIntervalMs: cold.gcIntervalMs,
    gcEntriesMax: cold.gcEntriesMax,
    gcGraceMs: cold.gcGraceMs,
    mergedGraceMs: cold.mergedGraceMs,
    sweepIntervalMs: cold.sweepIntervalMs,
    sweepGraceMs: cold.sweepGraceMs,
    compactRunMin: cold.compaction ? COMPACT_RUN_MIN : 0,
  };
}

/** Grace periods for backups. */
export function gracesOf({ backend, gcGraceMs, mergedGraceMs, compaction }: ColdConfig): ColdGraces | undefined {
  if (backend === 'none') return undefined;
  return { cold_gc_grace_ms: gcGraceMs, ...(compaction ? { cold_compaction_gc_grace_ms: mergedGraceMs } : {}) };
}

/** The most common refusal: S3 encrypts by default, while many other stores cannot, or only over https. */
function hint(cold: ColdConfig, failed: ColdFailure): string {
  const mayBeEncryption = cold.backend === 's3' && cold.s3.encryption !== 'none' && / (400|501) /.test(failed.message);
  return mayBeEncryption
    ? ` (storage.cold.s3.server_side_encryption is "${cold.s3.encryption}"; "none" if the store cannot encrypt)`
    : '';
}

/** Nodes must be able to read what they write. */
async function tryKeys(keys: AgeKeys | undefined): Promise<void> {
  if (keys === undefined) return;
  try {
    const age = await Age.of(keys);
    if (age.seals) await age.tryOut('both');
  } catch (error) {
    if (!(error instanceof AgeError)) throw error;
    throw new ConfigError(
      `storage.cold.encryption_identity_file and storage.cold.encryption_recipients_file: ${error.message}`,
    );
  }
}

function stateOf(keys: AgeKeys | undefined): 'none' | 'reads' | 'writes' {
  if (keys === undefined) return 'none';
  return keys.recipients.length === 0 ? 'reads' : 'writes';
}

function describe(cold: ColdConfig): Record<string, unknown> {
  const isS3 = cold.backend === 's3';
  return {
    backend: cold.backend,
    root: cold.root === '' ? null : cold.root,
    directory: isS3 ? null : cold.dir,
    bucket: isS3 ? cold.s3.bucket : null,
    region: isS3 ? (cold.s3.region ?? process.env['AWS_REGION'] ?? null) : null,
    endpoint: isS3 ? (cold.s3.endpoint ?? null) : null,
    encryption: isS3 ? cold.s3.encryption : null,
  };
}
