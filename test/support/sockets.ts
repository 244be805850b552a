import type { Socket } from 'node:net';

/**
 * Waits until a socket is closed, whichever way: a peer that closes with unread bytes resets the connection, which
 * `once` throws.
 */
export function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.on('error', () => undefined);
    socket.once('close', () => resolve());
    if (socket.closed) resolve();
  });
}
