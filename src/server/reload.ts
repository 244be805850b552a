/**
 * SIGHUP: reopens the log file, reads the configuration again, and applies what can change at run time: certificates,
 * tokens, limits and the keys of cold objects. Everything else waits for the next start. A configuration that is
 * unreadable, invalid, or would end a start changes nothing.
 */
import { readFileSync } from 'node:fs';
import { nodeUri } from '../base/node-uri.ts';
import type { Config } from '../config/config.ts';
import { ConfigError } from '../config/error.ts';
import { loadConfig } from '../config/load.ts';
import type { Logger, NodeLog } from '../logging/logger.ts';
import { endOfCertificate, readPems } from './certificate-watch.ts';
import type { ReloadedPlanes } from './planes.ts';
import { tokenChanges } from './token-changes.ts';

type Pems = ReturnType<typeof readPems> & { readonly key: string };
type Outcome = 'none' | 'unchanged' | 'changed';

/** Exists before the node, as a signal may come during its start. */
export class Reloads {
  readonly #argv: readonly string[];
  readonly #nodeLog: NodeLog;
  readonly #log: Logger;
  #config: Config;
  #pems: Pems | undefined;
  #planes: ReloadedPlanes | undefined;
  /** A signal came during the start, which may have read the files before they were changed. */
  #isAsked = false;
  /** One reload after the other: keys are tried in the meantime, and the last signal has the last word. */
  #last = Promise.resolve();

  constructor(argv: readonly string[], config: Config, log: NodeLog) {
    this.#argv = argv;
    this.#config = config;
    this.#pems = pemsOf(config);
    this.#nodeLog = log;
    this.#log = log.logger('server');
  }

  begin(planes: ReloadedPlanes): void {
    this.#planes = planes;
    if (this.#isAsked) this.run();
  }

  /** The node stops: signals are ignored from now on. */
  end(): void {
    this.#planes = undefined;
  }

  run(): void {
    if (this.#planes === undefined) {
      this.#isAsked = true;
      this.#log.warn('nothing is reloaded while the node starts or stops; a start is followed by a reload');
      return;
    }
    // The log files are opened again even when the rest fails.
    this.#nodeLog.reopen();
    this.#planes.reopenAudit();
    this.#last = this.#last.then(async () => {
      try {
        await this.#reload();
      } catch (error) {
        const reason = error instanceof ConfigError ? error.message : String(error);
        this.#log.error({ reason }, 'the reload failed; all settings stay as they were');
      }
    });
  }

  async #reload(): Promise<void> {
    const before = this.#config;
    const now = loadConfig(this.#argv);
    checkSwitches(before, now);
    checkIssuer(before, now);
    checkIdentity(before, now);
    // First the steps that may fail.
    const [keysBefore, keys] = [listed(before.storage.cold.keys), listed(now.storage.cold.keys)];
    const useColdKeys = keysBefore === keys ? undefined : await this.#planes?.tryColdKeys(now.storage.cold.keys);
    const planes = this.#planes;
    // The node stops.
    if (planes === undefined) return;
    const pems = pemsOf(now);
    const certificate = outcome(listed(this.#pems), listed(pems));
    if (certificate === 'changed' && now.server.tls !== undefined) planes.renewCertificates(now.server.tls);
    const [linksBefore, links] = [listed(before.cluster.tls), listed(now.cluster.tls)];
    if (linksBefore !== links) planes.changeClusterTls(now.cluster.tls);
    useColdKeys?.();
    const { clientToken, adminToken, tokens, adminTokens, trustedProxies } = now.http;
    planes.changeTokens({ client: clientToken ?? '', admin: adminToken ?? '', scoped: tokens, roles: adminTokens });
    planes.trustProxies(trustedProxies);
    planes.changeLimits(now);
    planes.tell(tokenChanges(before, now));
    this.#config = now;
    this.#pems = pems;
    const said = {
      certificate,
      ...(pems === undefined ? {} : { certificate_valid_to: new Date(endOfCertificate(pems.cert)).toISOString() }),
      cluster_tls: outcome(linksBefore, links),
      ...(now.cluster.tls === undefined ? {} : { cluster_tls_mode: now.cluster.tls.mode }),
      ...(keysBefore === keys ? {} : { cold_keys: outcome(keysBefore, keys) }),
      client_token: outcome(before.http.clientToken, now.http.clientToken),
      tokens: outcome(listed(before.http.tokens), listed(now.http.tokens)),
      limits: outcome(listed(before.http.limits), listed(now.http.limits)),
      admin_token: outcome(before.http.adminToken, now.http.adminToken),
      admin_tokens: outcome(listed(before.http.adminTokens), listed(now.http.adminTokens)),
    };
    this.#log.info({ ...said, log_file: this.#nodeLog.reopen() ?? 'none' }, 'reloaded');
  }
}

/** Settings that would change the kind of plane. */
function checkSwitches(before: Config, now: Config): void {
  const switches = [
    ['server.tls_cert', before.server.tls, now.server.tls],
    ['http.admin_client_ca_file', before.server.tls?.adminCaPath, now.server.tls?.adminCaPath],
    ['http.client_token', before.http.clientToken, now.http.clientToken],
    ['http.signing_key_file', signs(before), signs(now)],
    ['http.tokens_file, or http.jwt_issuer,', before.http.tokens, now.http.tokens],
    ['http.admin_token', before.http.adminToken, now.http.adminToken],
    ['http.admin_tokens_file', before.http.adminTokens, now.http.adminTokens],
  ] as const;
  for (const [key, old, wanted] of switches) {
    if ((old === undefined) === (wanted === undefined)) continue;
    const change = old === undefined ? 'is set now and was not at the start' : 'was set at the start and is not now';
    throw new ConfigError(`${key} ${change}: that takes a restart`);
  }
}

/** The rules for signed tokens, and the server of their keys, are decided at the start. */
function checkIssuer(before: Config, now: Config): void {
  const rulesOf = ({ http: { tokens } }: Config): string => {
    const { issuer, audience, clockSkewMs, keyServer } = tokens?.jwt ?? {};
    return JSON.stringify([issuer, audience, clockSkewMs, keyServer]);
  };
  if (rulesOf(before) === rulesOf(now)) return;
  const keys = 'http.jwks_url, http.jwt_issuer, http.jwt_audience or http.jwt_clock_skew';
  throw new ConfigError(`${keys} changed: that takes a restart`);
}

/** The certificate of the links was checked against the new identity, and the node lives under the old one. */
function checkIdentity(before: Config, now: Config): void {
  if (now.cluster.tls === undefined) return;
  const identityOf = ({ cluster, raft }: Config): string => nodeUri(cluster.name, raft.nodeId);
  if (identityOf(before) === identityOf(now)) return;
  throw new ConfigError(
    `cluster.name or raft.node_id changed (${identityOf(before)} is ${identityOf(now)} now): that takes a restart`,
  );
}

/** Undefined: nodes sign no tokens. */
function signs({ http: { tokens } }: Config): unknown {
  return tokens?.signingKeys[0];
}

function pemsOf({ server: { tls } }: Config): Pems | undefined {
  return tls && { ...readPems(tls), key: readFileSync(tls.keyPath, 'utf8') };
}

function listed(settings: object | undefined): string | undefined {
  return settings === undefined ? undefined : JSON.stringify(settings);
}

function outcome(before: string | undefined, now: string | undefined): Outcome {
  if (now === undefined) return 'none';
  return before === now ? 'unchanged' : 'changed';
}
