/** Certificates of the planes and of the links between nodes. Files that cannot be used end the start. */
import { X509Certificate, createPrivateKey } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { caughtMessage } from '../base/caught.ts';
import { hasUri, nodeUri } from '../base/node-uri.ts';
import { certificatesIn } from '../base/pem.ts';
import { ConfigError } from './error.ts';
import { refuse } from './kinds.ts';
import type { OptionKey, OptionValues } from './options.ts';
import { readText } from './text-file.ts';

export interface PlaneTls {
  readonly certPath: string;
  readonly keyPath: string;
  /** Authorities whose certificates clients of the admin plane must have; undefined: they need none. */
  readonly adminCaPath?: string;
}

/** TLS of the links. The texts are PEM: shard threads get them as they are. */
export interface ClusterTls {
  readonly mode: 'accept' | 'dial' | 'require';
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
}

export function tlsOf(values: OptionValues): PlaneTls | undefined {
  const certPath = values['server.tls_cert'];
  const keyPath = values['server.tls_key'];
  const adminCaPath = values['http.admin_client_ca_file'];
  if (certPath === undefined && keyPath === undefined) {
    if (adminCaPath === undefined) return undefined;
    throw refuse(
      'server.tls_cert',
      undefined,
      'a certificate, because http.admin_client_ca_file asks for those of clients',
    );
  }
  if (certPath === undefined) throw refuse('server.tls_cert', undefined, 'the certificate of server.tls_key');
  if (keyPath === undefined) throw refuse('server.tls_key', undefined, 'the private key of server.tls_cert');
  const pems = { cert: readText('server.tls_cert', certPath), key: readText('server.tls_key', keyPath) };
  checkPair('server.tls_cert and server.tls_key', pems);
  if (adminCaPath === undefined) return { certPath, keyPath };
  checkAuthorities('http.admin_client_ca_file', readText('http.admin_client_ca_file', adminCaPath));
  return { certPath, keyPath, adminCaPath };
}

export function clusterTlsOf(values: OptionValues): ClusterTls | undefined {
  const mode = values['cluster.tls'];
  const [certPath, keyPath, caPath] = [values['cluster.tls_cert'], values['cluster.tls_key'], values['cluster.tls_ca']];
  // Files that are not used yet may come later.
  if (mode === 'off') return undefined;
  const read = (key: OptionKey, path: string | undefined): string => {
    if (path === undefined) throw refuse(key, undefined, `a file, because cluster.tls = "${mode}"`);
    return readText(key, path);
  };
  const [cert, key] = [read('cluster.tls_cert', certPath), read('cluster.tls_key', keyPath)];
  const ca = read('cluster.tls_ca', caPath);
  checkPair('cluster.tls_cert and cluster.tls_key', { cert, key });
  checkAuthorities('cluster.tls_ca', ca);
  checkNames(cert, nodeUri(values['cluster.name'], values['raft.node_id']));
  return { mode, cert, key, ca };
}

/** Planes and links would accept any files and then fail every handshake, so the files are tried here. */
function checkPair(keys: string, { cert, key }: { readonly cert: string; readonly key: string }): void {
  try {
    const fits = new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
    if (!fits) throw new Error('the key belongs to another certificate');
    for (const pem of certificatesIn(cert)) void new X509Certificate(pem);
    // Also what OpenSSL refuses, such as keys that are too short.
    createSecureContext({ cert, key });
  } catch (error) {
    throw new ConfigError(`${keys}: expected a PEM certificate and its private key (${caughtMessage(error)})`);
  }
}

function checkAuthorities(name: OptionKey, ca: string): void {
  try {
    const found = certificatesIn(ca);
    if (found.length === 0) throw new Error('there is none');
    for (const pem of found) void new X509Certificate(pem);
  } catch (error) {
    throw new ConfigError(`${name}: expected certificates in PEM (${caughtMessage(error)})`);
  }
}

/** `id-kp-serverAuth` and `id-kp-clientAuth`. */
const BOTH_ENDS = ['1.3.6.1.5.5.7.3.1', '1.3.6.1.5.5.7.3.2'];

function checkNames(cert: string, uri: string): void {
  const { subjectAltName, keyUsage } = new X509Certificate(cert);
  if (!hasUri(subjectAltName, uri)) {
    const found = subjectAltName === undefined ? 'it has no names' : `it has ${subjectAltName.slice(0, 200)}`;
    throw new ConfigError(
      `cluster.tls_cert: expected the name URI:${uri} (cluster.name and raft.node_id) among its subjectAltNames; ${found}`,
    );
  }
  // Without the extension it is for everything. Node.js' types have the older name of it only.
  const usage: readonly string[] = keyUsage ?? BOTH_ENDS;
  if (!BOTH_ENDS.every((end) => usage.includes(end)))
    throw new ConfigError('cluster.tls_cert: expected one whose extended key usage has both serverAuth and clientAuth');
}
