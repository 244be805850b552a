/**
 * TLS of the links: mutual, 1.3 only. A certificate stands for the nodes that it names by their URI (base/node-uri.ts),
 * so another node's does not pass for this one, whatever address it comes from. What is said inside is the same
 * handshake, with the secret, and the same frames.
 */
import { X509Certificate, constants } from 'node:crypto';
import type { Socket } from 'node:net';
import {
  type ConnectionOptions,
  type SecureContext,
  type Server,
  type TLSSocket,
  connect,
  createSecureContext,
  createServer,
} from 'node:tls';
import { type Address, formatAddress } from '../base/address.ts';
import { assert } from '../base/assert.ts';
import { hasUri, nodeUri } from '../base/node-uri.ts';
import { certificatesIn } from '../base/pem.ts';
import type { LinkRefusal } from './codec/handshake.ts';

export interface PeerTlsSettings {
  /** `accept`: both, and dials plain. `dial`: accepts both. `require`: nothing plain. */
  readonly mode: 'accept' | 'dial' | 'require';
  /** PEM. */
  readonly cert: string;
  readonly key: string;
  readonly ca: string;
}

/** An incoming connection that waits for the end of its TLS handshake. */
export interface Secured {
  onSecured(socket: TLSSocket): void;
  onFault(reason: string): void;
}

interface InForce {
  readonly settings: PeerTlsSettings;
  readonly context: SecureContext;
  readonly server: Server;
}

const VERSIONS = { minVersion: 'TLSv1.3', maxVersion: 'TLSv1.3' } as const;

const ADVICE: Readonly<Record<string, (shower: number, judge: number) => string>> = {
  CERT_NOT_YET_VALID: (shower, judge) => `compare the clocks of nodes ${shower} and ${judge}`,
  INVALID_PURPOSE: (shower) => `cluster.tls_cert of node ${shower} has to be for clients and servers`,
};
const unknownAuthority = (shower: number, judge: number): string =>
  `cluster.tls_ca of node ${judge} has to hold the authority of cluster.tls_cert of node ${shower}`;

/** Whether a connection that begins so is TLS; `unsure`: too few bytes to tell. Nothing else here begins with 0x16. */
export function looksLikeTls(bytes: Uint8Array): boolean | 'unsure' {
  if (bytes[0] !== 0x16) return false;
  return bytes.length < 2 ? 'unsure' : bytes[1] === 0x03;
}

export class PeerTls {
  readonly #cluster: string;
  readonly #node: number;
  #inForce: InForce | undefined;
  /** By the address that the connection comes from, which tells it from the others while it is open. */
  readonly #waiting = new Map<string, Secured>();

  constructor(cluster: string, node: number, settings: PeerTlsSettings | undefined) {
    this.#cluster = cluster;
    this.#node = node;
    this.change(settings);
  }

  get accepts(): boolean {
    return this.#inForce !== undefined;
  }

  get dials(): boolean {
    return this.#inForce !== undefined && this.#inForce.settings.mode !== 'accept';
  }

  get isRequired(): boolean {
    return this.#inForce?.settings.mode === 'require';
  }

  /** For connections from now on. Throws for what OpenSSL does not take; the settings before stay then. */
  change(settings: PeerTlsSettings | undefined): void {
    if (settings === undefined) {
      this.#inForce = undefined;
      return;
    }
    const { cert, key, ca } = settings;
    const context = createSecureContext({ cert, key, ca, ...VERSIONS });
    this.#inForce = { settings, context, server: this.#listen(settings) };
  }

  /** Emits `secureConnect` when the other side has shown the certificate of `node`. */
  connect({ host, port }: Address, node: number): TLSSocket {
    return connect({ host, port, ...this.clientOptions(node) }).setNoDelay(true);
  }

  /** For connections to `node`. */
  clientOptions(node: number): ConnectionOptions {
    assert(this.#inForce !== undefined, 'TLS is on');
    return {
      secureContext: this.#inForce.context,
      rejectUnauthorized: true,
      checkServerIdentity: (_host, { subjectaltname }) =>
        this.#isNamed(node, subjectaltname) ? undefined : new Error(this.#misnamed(node, subjectaltname)),
    };
  }

  /** The sentence about a connection to `node` that failed before `secureConnect`: why, and the setting to change. */
  explain(error: NodeJS.ErrnoException, node: number, address: Address): string {
    const { code = '', message } = error;
    const where = `node ${node} at ${formatAddress(address)}`;
    if (code === 'ECONNRESET' || code === 'EPROTO' || code.startsWith('ERR_SSL'))
      return `${where} ended the TLS handshake (${message}): set cluster.tls = "accept" there first, or see its log`;
    if (code.startsWith('E') || code === '') return message;
    return this.#unaccepted(node, code);
  }

  /** Takes over a connection without listeners but for its end, and the bytes already received. */
  accept(socket: Socket, bytes: Uint8Array, secured: Secured): void {
    assert(this.#inForce !== undefined, 'TLS is on');
    const from = comesFrom(socket);
    this.#waiting.set(from, secured);
    socket.once('close', () => this.#waiting.delete(from));
    socket.pause();
    socket.unshift(bytes);
    this.#inForce.server.emit('connection', socket);
  }

  /** Why this incoming connection may not be that of `node`; undefined: it may. */
  faultOf(socket: TLSSocket | undefined, node: number): LinkRefusal | undefined {
    if (socket === undefined) {
      if (!this.isRequired) return undefined;
      const text = `node ${this.#node} has cluster.tls = "require", node ${node} came without TLS: set "dial" there first`;
      return { code: 'tls-required', text };
    }
    const fault = this.#certificateFault(socket, node);
    return fault === undefined ? undefined : { code: 'wrong-certificate', text: fault };
  }

  /** The same of a connection that names no node, such as one for HTTP. */
  strangerFault(socket: TLSSocket | undefined): string | undefined {
    if (socket === undefined) return this.isRequired ? 'cluster.tls is "require", and this is not TLS' : undefined;
    return socket.authorized && !socket.isSessionReused()
      ? undefined
      : 'no certificate of an authority of cluster.tls_ca';
  }

  #certificateFault(socket: TLSSocket, node: number): string | undefined {
    // Node.js takes a resumed session for authorized. None is: there are no tickets.
    if (!socket.authorized || socket.isSessionReused())
      return this.#unaccepted(node, String(socket.authorizationError));
    const names = socket.getPeerX509Certificate()?.subjectAltName;
    return this.#isNamed(node, names) ? undefined : this.#misnamed(node, names);
  }

  #isNamed(node: number, names: string | undefined): boolean {
    return hasUri(names, nodeUri(this.#cluster, node));
  }

  #misnamed(node: number, names: string | undefined): string {
    const uri = nodeUri(this.#cluster, node);
    const found = names === undefined ? 'no names' : names.slice(0, 100);
    return `node ${this.#node} wants of node ${node} a certificate with the name URI:${uri}, and this one has ${found}`;
  }

  #unaccepted(node: number, code: string): string {
    const advice =
      code === 'CERT_HAS_EXPIRED' ? this.#renewal(node) : (ADVICE[code] ?? unknownAuthority)(node, this.#node);
    return `node ${this.#node} does not accept the certificate of node ${node} (${code}): ${advice}`;
  }

  /** OpenSSL does not say which one of the chain has ended. */
  #renewal(shower: number): string {
    const authorities = certificatesIn(this.#inForce?.settings.ca ?? '').map((pem) => new X509Certificate(pem));
    const ends = authorities.map(({ subject, validTo }) => `${subject.replaceAll('\n', ', ')} ends ${validTo}`);
    return (
      `renew cluster.tls_cert of node ${shower} and send that node SIGHUP, or renew its authority, if that has ended ` +
      `(in cluster.tls_ca of node ${this.#node}: ${ends.join('; ').slice(0, 300)})`
    );
  }

  #listen({ cert, key, ca }: PeerTlsSettings): Server {
    const server = createServer({
      ...{ cert, key, ca, ...VERSIONS },
      requestCert: true,
      // The certificate is judged when the connector has said which node it is, so that both logs can name it.
      rejectUnauthorized: false,
      secureOptions: constants.SSL_OP_NO_TICKET,
    });
    server.on('secureConnection', (socket) => {
      const secured = this.#waiting.get(comesFrom(socket));
      if (secured === undefined) socket.destroy();
      else secured.onSecured(socket);
    });
    server.on('tlsClientError', (error, socket) => {
      this.#waiting.get(comesFrom(socket))?.onFault(`TLS: ${error.message}`);
      socket.destroy();
    });
    return server;
  }
}

function comesFrom({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
