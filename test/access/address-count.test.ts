// Counting connections by address, although no event says which one closed: an honest
// client is never refused by mistake.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type Socket, connect, createServer } from 'node:net';
import { test } from 'node:test';
import { AddressCount, connectionsTo, count, nameOfBytes } from '../../src/access/connections.ts';
import { createRandom, seedFromEnvironment } from '../support/random.ts';

test('a refused address has more than the limit, whatever comes and goes', () => {
  const seed = seedFromEnvironment();
  const random = createRandom(seed);
  for (let round = 0; round < 50; round++) {
    const limit = 1 + random.int(0, 19);
    const truth = new Map<string, number>();
    const connections: string[] = [];
    let nowMs = 0;
    let recounts = 0;
    const counting = new AddressCount(
      limit,
      () => {
        recounts++;
        return truth;
      },
      () => nowMs,
    );
    for (let step = 0; step < 2000; step++) {
      nowMs += random.int(0, 19);
      if (connections.length > 0 && random.chance(0.45)) {
        const [gone] = connections.splice(random.int(0, connections.length - 1), 1) as [string];
        truth.set(gone, (truth.get(gone) ?? 0) - 1);
        counting.leave();
        continue;
      }
      const address = `a${random.int(0, 7)}`;
      const has = (truth.get(address) ?? 0) + 1;
      truth.set(address, has);
      if (counting.arrive(address)) {
        connections.push(address);
      } else {
        assert.ok(has > limit, `seed ${seed} round ${round} step ${step}: ${has} of ${limit}`);
        truth.set(address, has - 1);
        counting.leave();
      }
    }
    assert.ok(recounts <= nowMs / 1000 + 1, 'the table is read seldom');
  }
});

test('an address that only takes is stopped at the limit; what others do moves it by what leaves in a second', () => {
  const counting = new AddressCount(
    3,
    () => undefined,
    () => 0,
  );
  assert.deepEqual(
    [1, 2, 3, 4, 5].map(() => counting.arrive('greedy')),
    [true, true, true, false, false],
  );
  assert.equal(counting.arrive('another'), true);
});

test("the kernel's table names addresses as the library does", async (t) => {
  // Connections of tests before it, to a server that had the same port, come from others.
  for (const [host, bytes] of [
    ['127.83.51.7', [127, 83, 51, 7]],
    ['::1', [...Array<number>(15).fill(0), 1]],
  ] as const) {
    const server = createServer();
    server.listen(0, host);
    await once(server, 'listening');
    t.after(() => server.close());
    const { port } = server.address() as { port: number };
    const sockets: Socket[] = [];
    for (let i = 0; i < 3; i++) {
      const socket = connect({ port, host, localAddress: host });
      t.after(() => socket.destroy());
      await Promise.all([once(socket, 'connect'), once(server, 'connection')]);
      sockets.push(socket);
    }
    assert.equal(connectionsTo(port)?.get(nameOfBytes(Uint8Array.from(bytes))), 3, host);
  }
});

test('an IPv4 address is the same however it comes, and a /64 is one host', () => {
  const mapped = Uint8Array.from([...Array<number>(10).fill(0), 255, 255, 10, 1, 2, 3]);
  assert.equal(nameOfBytes(mapped), nameOfBytes(Uint8Array.of(10, 1, 2, 3)));
  const host = (last: number): string =>
    nameOfBytes(Uint8Array.from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, last]));
  assert.equal(host(1), host(2));
  const table = `  sl  local_address rem_address   st
   0: 0100007F:1155 0302010A:C350 01 00000000:00000000
   1: 0100007F:1155 0302010A:C351 08 00000000:00000000
   2: 0100007F:1155 0302010A:C352 06 00000000:00000000
   3: 0100007F:1156 0302010A:C353 01 00000000:00000000
   4: 0100007F:1155 00000000:0000 0A 00000000:00000000`;
  const counts = new Map<string, number>();
  count(table, '1155', counts);
  assert.deepEqual([...counts], [[nameOfBytes(mapped), 2]]);
});
