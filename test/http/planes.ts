// Both planes over a fake gateway on free ports of the loopback.
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { HttpContext, HttpSettings } from '../../src/http/context.ts';
import type { Operations } from '../../src/http/routes/table.ts';
import { type Planes, createPlanes } from '../../src/http/server.ts';
import { HttpCounters } from '../../src/metrics/http-metrics.ts';
import { ScriptedGateway } from '../support/scripted-gateway.ts';
import { consolePage } from '../../src/console/built-page.ts';
import { openBackups } from '../../src/backup/backups.ts';
import { testContext } from './test-context.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';

/** A drain mark without a disk or shards. */
export class FakeDrainMark {
  draining = false;
  /** Beside the mark. */
  otherBits = 0;
  /** The next change fails with it. */
  failure: Error | undefined;

  get bits(): number {
    return this.otherBits | (this.draining ? 1 : 0);
  }

  set(wanted: 'draining' | 'serving'): Promise<void> {
    const failure = this.failure;
    this.failure = undefined;
    if (failure !== undefined) return Promise.reject(failure);
    this.draining = wanted === 'draining';
    return Promise.resolve();
  }
}

/** A cold store that remembers what was deleted. */
export class FakeColdObjects {
  readonly removed: string[] = [];
  /** Why it does not delete. */
  failure: string | undefined;

  remove(keys: readonly string[]): Promise<{ readonly ok: boolean }> {
    if (this.failure !== undefined) return Promise.resolve({ ok: false });
    this.removed.push(...keys);
    return Promise.resolve({ ok: true });
  }
}

export interface Rig {
  readonly gateway: ScriptedGateway;
  readonly planes: Planes;
  readonly port: number;
  readonly adminPort: number;
  readonly client: string;
  readonly admin: string;
  readonly counters: HttpCounters;
  readonly drainMark: FakeDrainMark;
  readonly coldObjects: FakeColdObjects;
  /** Errors that handlers reported; a test that expects some must empty it. */
  readonly errors: unknown[];
}

export function newOperations(gateway: ScriptedGateway): Operations {
  return {
    drainMark: new FakeDrainMark(),
    hasClusterPlane: true,
    peers: new Map([[2, '127.0.0.1:6250']]),
    coldObjects: undefined,
    sessions: new Sessions(),
    // Tokens with scopes may narrow nothing here.
    narrowing: {
      holder: (parent) => () =>
        parent === undefined ? { id: 'made', token: 'a.b.c', expiresAtMs: 0 } : { reason: 'planned' },
    },
    console: consolePage('<!doctype html><style>b{color:red}</style><script>1</script>'),
    inspection: {
      list: () => ({ driving: false, subscriptions: [], next_cursor: null }),
      deliver: () => 'not-found',
    },
    metrics: {
      mailboxDepths: () => [1, 2],
      mailboxCapacities: () => [1024, 1024],
      http: () => ({}),
      extra: () => ({}),
    },
    history: { begin: () => undefined, end: () => undefined, json: () => '{}' },
    backups: openBackups({
      gateway,
      requests: () => 0,
      shardDirectories: [],
      directory: '/nowhere',
      readCold: undefined,
      coldGraces: undefined,
      membership: { lineage: { cluster_id: null, restored_from: [] }, restored: () => undefined },
      log: { warn: () => undefined },
      runtime: PROCESS_RUNTIME,
    }),
  };
}

/**
 * Starts the planes for one test and closes them after it, checking that nothing was left open and no handler failed.
 */
export async function startPlanes(
  t: TestContext,
  given: Partial<HttpSettings> &
    Pick<
      Partial<HttpContext>,
      'connections' | 'understandsConditions' | 'senders' | 'audit' | 'limits' | 'monotonicMs'
    > = {},
  hasClusterPlane = true,
  services: Pick<Operations, 'control' | 'webhookKeys'> & Partial<Pick<Operations, 'backups' | 'sessions'>> = {},
): Promise<Rig> {
  const gateway = new ScriptedGateway();
  const counters = new HttpCounters();
  const drainMark = new FakeDrainMark();
  const coldObjects = new FakeColdObjects();
  const errors: unknown[] = [];
  const operations = newOperations(gateway);
  const planes = createPlanes({
    ctx: testContext(gateway, {
      ...given,
      writes: gateway.writes,
      metrics: counters,
      settings: { longPollTimeoutMs: 500, ...given },
      requestIdPrefix: '7-c0ffee00',
      logError: (error) => errors.push(error),
    }),
    operations: {
      ...operations,
      metrics: { ...operations.metrics, http: () => ({ ...counters.snapshot() }), extra: () => ({ node_id: 1 }) },
      drainMark,
      hasClusterPlane,
      coldObjects,
      ...services,
    },
  });
  const port = await planes.listenClient('127.0.0.1', 0);
  const adminPort = await planes.listenAdmin('127.0.0.1', 0);
  t.after(async () => {
    gateway.release();
    await planes.close(1000);
    assert.equal(planes.openRequests(), 0);
    assert.deepEqual(errors, []);
  });
  return {
    gateway,
    planes,
    port,
    adminPort,
    client: `http://127.0.0.1:${port}`,
    admin: `http://127.0.0.1:${adminPort}`,
    counters,
    drainMark,
    coldObjects,
    errors,
  };
}
