// Clients that keep a connection and behave badly on it for a long time: they never read, or never finish sending.
import { connect, type Socket } from 'node:net';

export function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      socket.on('error', () => undefined);
      resolve(socket);
    });
  });
}

/** Asks and never reads a byte of the answer. */
export async function neverReads(port: number, path: string): Promise<Socket> {
  const socket = await open(port);
  socket.pause();
  socket.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`);
  return socket;
}

/** Starts a body and stops in the middle. */
export async function halfSent(port: number, path: string, declaredBytes: number, sentBytes: number): Promise<Socket> {
  const socket = await open(port);
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: ${declaredBytes}\r\n\r\n`,
  );
  socket.write(Buffer.alloc(sentBytes, 'h'));
  return socket;
}

/** A whole request, one byte per call of the returned function; false when all is sent. */
export async function slowSender(port: number, bytes: Buffer): Promise<{ readonly socket: Socket; drip(): boolean }> {
  const socket = await open(port);
  socket.setNoDelay(true);
  let sent = 0;
  return {
    socket,
    drip: () => {
      if (sent < bytes.length && !socket.destroyed) socket.write(bytes.subarray(sent, ++sent));
      return sent < bytes.length && !socket.destroyed;
    },
  };
}

/** Sends `total` bytes of a chunked body in pieces and returns the status of the answer, 0 when it was cut off. */
export async function chunkedBody(port: number, path: string, total: number): Promise<number> {
  const socket = await open(port);
  let text = '';
  socket.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  const answered = new Promise<void>((resolve) => socket.on('data', () => text.includes('\r\n\r\n') && resolve()));
  const piece = Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(0x10000, 'c'), Buffer.from('\r\n')]);
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n`,
  );
  for (let sent = 0; sent < total && !socket.destroyed && text === ''; sent += 0x10000) {
    const flushed = new Promise<void>((resolve) => socket.write(piece, () => resolve()));
    await Promise.race([flushed, closed, answered]);
  }
  if (!socket.destroyed && text === '') socket.write('0\r\n\r\n');
  await Promise.race([answered, closed]);
  socket.destroy();
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0);
}
