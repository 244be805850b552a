/** The context of the client plane of a node that is simulated. */
import type { HttpContext, HttpSettings } from '../../../src/http/context.ts';
import { HttpCounters } from '../../../src/metrics/http-metrics.ts';
import type { ShardGateway } from '../../../src/ports.ts';
import { newConnections } from '../../http/new-connections.ts';
import { NO_FORKS } from '../../http/no-forks.ts';
import { unaudited } from '../../http/unaudited.ts';

type Bounds = Pick<HttpSettings, 'inflightBodyBytes' | 'watchersPerCoreMax'>;

export function contextOver(gateway: ShardGateway, bounds: Bounds, monotonicMs: () => number): HttpContext {
  return {
    ...{ gateway, monotonicMs, writes: gateway, forks: NO_FORKS, metrics: new HttpCounters() },
    connections: newConnections(),
    ...unaudited(),
    understandsConditions: () => true,
    requestIdPrefix: '1-0',
    logError: (error) => {
      throw error;
    },
    settings: {
      ...bounds,
      ...{ longPollTimeoutMs: 30_000, sseKeepaliveMs: 15_000, sseLifetimeMs: 60_000 },
      ...{ readCache: 'none', corsOrigins: ['*'], clientToken: '', adminToken: '', tls: undefined },
      clientHosts: { listen: '127.0.0.1', names: [] },
      adminHosts: { listen: '127.0.0.1', names: [] },
    },
  };
}
