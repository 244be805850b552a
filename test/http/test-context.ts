// The context of a node's HTTP side in tests: what a test is not about has bounds that nothing meets.
import { Senders } from '../../src/access/senders.ts';
import { AuditTrail } from '../../src/audit/trail.ts';
import type { HttpContext, HttpSettings } from '../../src/http/context.ts';
import { HttpCounters } from '../../src/metrics/http-metrics.ts';
import type { Forks, ShardGateway } from '../../src/ports.ts';
import { newConnections } from './new-connections.ts';

const NO_FORKS: Forks = {
  create: () => false,
  tell: (_group, _reply, done) => done(),
};

const SETTINGS: HttpSettings = {
  longPollTimeoutMs: 30_000,
  sseKeepaliveMs: 15_000,
  sseLifetimeMs: 60_000,
  readCache: 'none',
  corsOrigins: ['*'],
  clientHosts: { listen: '127.0.0.1', names: ['x'] },
  adminHosts: { listen: '127.0.0.1', names: ['x'] },
  inflightBodyBytes: 256 * 1024 * 1024,
  watchersPerCoreMax: 0,
  clientToken: '',
  adminToken: '',
  tls: undefined,
};

/** Parts that differ from the usual ones. */
interface Differing extends Partial<Omit<HttpContext, 'gateway' | 'settings'>> {
  readonly settings?: Partial<HttpSettings>;
}

/** An error that a handler reports fails the test that met it. */
export function testContext(gateway: ShardGateway, { settings, ...parts }: Differing = {}): HttpContext {
  const runtime = { setTimer: () => () => undefined };
  return {
    gateway,
    writes: gateway,
    forks: NO_FORKS,
    metrics: new HttpCounters(),
    connections: newConnections(),
    senders: new Senders([]),
    audit: new AuditTrail({ runtime, write: () => undefined }),
    understandsConditions: () => true,
    requestIdPrefix: '1-0',
    monotonicMs: () => performance.now(),
    logError: (error) => {
      throw error;
    },
    ...parts,
    settings: { ...SETTINGS, ...settings },
  };
}
