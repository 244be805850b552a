/** Why a plane cannot listen: the HTTP library says only that it could not, so the system is asked once more. */
import { createServer } from 'node:net';
import { formatAddress } from '../base/address.ts';

/** Linux: below it a port is privileged (`net.ipv4.ip_unprivileged_port_start`, unless that was changed). */
const FIRST_FREE_PORT = 1024;

export class ListenError extends Error {
  override readonly name = 'ListenError';

  constructor(plane: string, address: string, reason: string) {
    super(`cannot listen on ${address} for the ${plane} plane: ${reason}`);
  }
}

/** The error for an address on which listening has just failed. */
export async function listenError(plane: string, host: string, port: number): Promise<ListenError> {
  const code = await new Promise<string | undefined>((resolve) => {
    const probe = createServer();
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code));
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(undefined)));
  });
  return new ListenError(plane, formatAddress({ host, port }), reasonOf(code, port));
}

function reasonOf(code: string | undefined, port: number): string {
  switch (code) {
    case 'EADDRINUSE':
      return 'the port is in use by another process';
    case 'EADDRNOTAVAIL':
      return 'the address does not belong to this host';
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'the name is not known here; give an address';
    case 'EACCES':
      return port < FIRST_FREE_PORT
        ? `ports below ${FIRST_FREE_PORT} need a privilege (CAP_NET_BIND_SERVICE: AmbientCapabilities= in the unit file); take a higher one, or put a proxy in front`
        : 'this user may not use the port';
    case undefined:
      // It was taken a moment ago and is free now.
      return 'the port was in use by another process';
    default:
      return `the system says ${code}`;
  }
}
