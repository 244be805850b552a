/** The part of the configuration that HTTP code needs. */
import type { Config } from '../config/config.ts';
import type { HttpSettings } from '../http/context.ts';

export function httpSettings({ http, server, runtime }: Config): HttpSettings {
  return {
    longPollTimeoutMs: http.longPollTimeoutMs,
    sseKeepaliveMs: http.sseKeepaliveMs,
    sseLifetimeMs: http.sseLifetimeMs,
    corsOrigins: http.corsOrigins,
    clientHosts: { listen: server.listen.host, names: server.hosts },
    adminHosts: { listen: server.adminListen.host, names: server.adminHosts },
    readCache: http.readCache,
    inflightBodyBytes: server.inflightBodyBytes,
    watchersPerCoreMax: runtime.liveReadMaxWaitersPerCore,
    clientToken: http.clientToken ?? '',
    adminToken: http.adminToken ?? '',
    tls: server.tls,
  };
}
