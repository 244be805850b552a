/** A plane that listens beyond loopback needs a token or a secret that cannot be guessed. */
import { type Address, formatAddress, isLoopback } from '../base/address.ts';
import { ConfigError } from './error.ts';
import { type PlaneName, refuse } from './kinds.ts';
import { weaknessOf } from './secret-strength.ts';

/** The part of Config that is looked at. */
interface Doors {
  readonly server: {
    readonly listen: Address;
    readonly adminListen: Address;
    readonly clusterListen: Address | undefined;
    readonly allowUnauthenticated: readonly PlaneName[];
  };
  readonly http: {
    readonly clientToken: string | undefined;
    readonly adminToken: string | undefined;
    /** Tokens with scopes guard the client plane, too. */
    readonly tokens?: object | undefined;
    /** And tokens with roles the admin plane. */
    readonly adminTokens?: object | undefined;
  };
  readonly cluster: { readonly secret: string | undefined };
}

interface Door {
  readonly plane: PlaneName;
  readonly listenKey: string;
  readonly listen: Address;
  readonly tokenKey: string;
  readonly token: string | undefined;
  readonly isGuarded: boolean;
}

/** Whether the client plane asks for a token, of whatever kind. */
export function asksForToken({ clientToken, tokens }: Pick<Doors['http'], 'clientToken' | 'tokens'>): boolean {
  return clientToken !== undefined || tokens !== undefined;
}

function doorsOf({ server, http }: Doors): readonly Door[] {
  return [
    {
      plane: 'client',
      listenKey: 'server.listen',
      listen: server.listen,
      tokenKey: 'http.client_token',
      token: http.clientToken,
      isGuarded: asksForToken(http),
    },
    {
      plane: 'admin',
      listenKey: 'server.admin_listen',
      listen: server.adminListen,
      tokenKey: 'http.admin_token',
      token: http.adminToken,
      isGuarded: http.adminToken !== undefined || http.adminTokens !== undefined,
    },
  ];
}

/** Throws ConfigError. */
export function checkDoors(config: Doors): void {
  const { server, cluster } = config;
  for (const { plane, listenKey, listen, tokenKey, isGuarded } of doorsOf(config)) {
    if (isGuarded || isLoopback(listen.host) || server.allowUnauthenticated.includes(plane)) continue;
    throw new ConfigError(
      `${listenKey} = "${formatAddress(listen)}" is reachable from other hosts, and any client there could use the ${plane} plane: ` +
        `set ${tokenKey}_file to a file with a token ("openssl rand -hex 32" makes one), or, if a proxy in front of it checks ` +
        `who asks, server.allow_unauthenticated = ["${plane}"] (--allow-unauthenticated ${plane})`,
    );
  }
  if (cluster.secret === undefined) {
    if (server.clusterListen === undefined || isLoopback(server.clusterListen.host)) return;
    throw refuse(
      'cluster.secret',
      undefined,
      'a secret (or cluster.secret_file), because server.cluster_listen is reachable from other hosts',
    );
  }
  const weakness = weaknessOf(cluster.secret);
  if (weakness === undefined) return;
  throw new ConfigError(
    `cluster.secret (not shown) ${weakness}: make one with "openssl rand -hex 32", the same for all nodes`,
  );
}

/** Sentences for the log: what is allowed, and not as it should be. */
export function doorWarnings(config: Doors): string[] {
  return doorsOf(config).flatMap(({ plane, listenKey, listen, tokenKey, token, isGuarded }) => {
    if (isLoopback(listen.host)) return [];
    const where = `${listenKey} = "${formatAddress(listen)}"`;
    if (!isGuarded) return [`${where} takes requests without a token: only a proxy may reach the ${plane} plane`];
    if (token === undefined) return [];
    const weakness = weaknessOf(token);
    return weakness === undefined ? [] : [`${where} is guarded by ${tokenKey}, which ${weakness}`];
  });
}
