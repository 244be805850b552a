/**
 * Counters of a shard's peer links. Their names are promises to readers of the metrics: a session is a connection, a
 * frame is a RAFT frame, a request is a sent append, heartbeat, vote or snapshot.
 */
import type { Message } from '../raft/types.ts';
import type { PeerLink } from './link.ts';

const NONE = {
  raft_grpc_append_stream_sessions_opened: 0,
  raft_grpc_append_stream_session_failures: 0,
  raft_grpc_append_stream_requests: 0,
  raft_grpc_append_stream_request_bytes: 0,
  raft_grpc_append_stream_responses: 0,
  raft_grpc_append_stream_response_bytes: 0,
  raft_grpc_append_stream_request_frames: 0,
  raft_grpc_append_stream_response_frames: 0,
  raft_grpc_append_stream_batch_frames: 0,
  raft_grpc_append_stream_batch_items_max: 0,
  raft_grpc_append_heartbeat_requests: 0,
  raft_grpc_append_heartbeat_request_bytes: 0,
  raft_grpc_append_replication_requests: 0,
  raft_grpc_append_replication_request_bytes: 0,
  raft_grpc_append_replication_entries: 0,
  raft_grpc_append_response_bytes: 0,
  raft_grpc_vote_requests: 0,
  raft_grpc_vote_request_bytes: 0,
  raft_grpc_vote_response_bytes: 0,
  raft_grpc_snapshot_requests: 0,
  raft_grpc_snapshot_request_bytes: 0,
  raft_grpc_snapshot_payload_bytes: 0,
  raft_grpc_snapshot_response_bytes: 0,
  /** Frames of all kinds, including headers. */
  peer_sent_frames: 0,
  peer_sent_bytes: 0,
  /** Raft messages for a disconnected peer, and frames that found no space or were pending when one was lost. */
  peer_dropped_messages: 0,
  peer_dropped_frames: 0,
  peer_dropped_bytes: 0,
  /** Bytes that currently wait in this process for peers. */
  peer_queued_bytes: 0,
  peer_links_up: 0,
  peer_sessions: 0,
  /** Those of them with TLS. */
  peer_tls_sessions: 0,
  /** Incoming connections that were refused. */
  peer_refused_connections: 0,
  /** HTTP requests for probes and shed states, and their open connections. */
  cluster_http_requests: 0,
  cluster_http_connections: 0,
  peer_forwards: 0,
  peer_forwards_waiting: 0,
  peer_forwards_failed: 0,
  /** Answers to forwarded requests that could not be sent, or that came after their client had left. */
  peer_replies_dropped: 0,
};
export type PeerCounters = typeof NONE;

export function newPeerCounters(): PeerCounters {
  return { ...NONE };
}

/** Counts an outgoing message; `bytes` is its share of the frame. */
export function countSent(counters: PeerCounters, message: Message, bytes: number): void {
  switch (message.type) {
    case 'append':
      counters.raft_grpc_append_stream_requests++;
      counters.raft_grpc_append_stream_request_bytes += bytes;
      counters.raft_grpc_append_replication_requests++;
      counters.raft_grpc_append_replication_request_bytes += bytes;
      counters.raft_grpc_append_replication_entries += message.entries.length;
      break;
    case 'heartbeat':
      counters.raft_grpc_append_stream_requests++;
      counters.raft_grpc_append_stream_request_bytes += bytes;
      counters.raft_grpc_append_heartbeat_requests++;
      counters.raft_grpc_append_heartbeat_request_bytes += bytes;
      break;
    case 'append-response':
    case 'heartbeat-response':
      counters.raft_grpc_append_stream_responses++;
      counters.raft_grpc_append_stream_response_bytes += bytes;
      counters.raft_grpc_append_response_bytes += bytes;
      break;
    case 'vote':
      counters.raft_grpc_vote_requests++;
      counters.raft_grpc_vote_request_bytes += bytes;
      break;
    case 'vote-response':
      counters.raft_grpc_vote_response_bytes += bytes;
      break;
    case 'snapshot':
    case 'timeout-now':
    case 'read-index':
    case 'read-index-response':
      break;
  }
}

/** The counts of a link, and its present state. */
export function addGauges(counters: PeerCounters, link: PeerLink): void {
  addLink(counters, link);
  counters.peer_queued_bytes += link.queuedBytes;
  counters.peer_links_up += link.connected ? 1 : 0;
}

/** Adds what a link has counted. */
export function addLink(counters: PeerCounters, link: PeerLink): void {
  counters.raft_grpc_append_stream_sessions_opened += link.connects;
  counters.raft_grpc_append_stream_session_failures += link.failures;
  counters.peer_sent_frames += link.sentFrames;
  counters.peer_sent_bytes += link.sentBytes;
  counters.peer_dropped_frames += link.droppedFrames;
  counters.peer_dropped_bytes += link.droppedBytes;
}
