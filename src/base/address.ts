/** A listening address, as written in configuration files, operators' calls and the log. */

export interface Address {
  readonly host: string;
  /** 0 lets the system choose a free port. */
  readonly port: number;
}

/** A DNS name has at most 253 characters; plus brackets, colon and port. */
export const ADDRESS_CHARS_MAX = 262;

/** `"127.0.0.1:4437"`, `"localhost:0"`, `"[::1]:4437"`. The host is never empty: all interfaces must be explicit. */
export function parseAddress(raw: unknown): Address | undefined {
  if (typeof raw !== 'string' || raw.length > ADDRESS_CHARS_MAX) return undefined;
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})$/.exec(raw);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || port > 65_535) return undefined;
  return { host, port };
}

/** True when only processes of this host can connect. Names other than localhost count as reachable from outside. */
export function isLoopback(host: string): boolean {
  return /^(127(\.\d{1,3}){3}|::1|localhost)$/.test(host);
}

/** An http or https address without a path that other nodes and clients are told: a name of 253 characters fits. */
export function isPublicUrl(written: string): boolean {
  return /^https?:\/\/[\w.:[\]-]{1,262}$/.test(written);
}

export function formatAddress(address: Address): string {
  return address.host.includes(':') ? `[${address.host}]:${address.port}` : `${address.host}:${address.port}`;
}
