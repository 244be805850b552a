// The port of peers for tests that are the other nodes themselves.
import { PROTOCOL_VERSION } from '../../src/peer/codec/handshake.ts';
import type { Message } from '../../src/raft/types.ts';
import type { PeerPort } from '../../src/shard/ports.ts';

/** Links to nodes of this version that only listen: `sent` takes what they would be told. */
export function listeningPort(sent: Message[]): PeerPort {
  const port: Partial<PeerPort> = {
    sendRaft: (_node, _group, message) => void sent.push(message),
    setJoined: () => undefined,
    connected: () => true,
    version: () => PROTOCOL_VERSION,
    forward: () => false,
    reply: () => false,
    flush: () => undefined,
  };
  return port as PeerPort;
}
