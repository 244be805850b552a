// How the streams of the benchmark lie in JetStream: as subjects, spread over a few replicated streams. A JetStream stream
// of its own for each would be a Raft group of its own for each, which is not how NATS is meant to be used (and slower).

/** As many Raft groups as Millrace has by default. */
export const NATS_STREAMS = 16;

export function natsStream(number: number): string {
  return `bench-${number}`;
}

/** All subjects of a stream, for its configuration. */
export function natsSubjectsOf(number: number): string {
  return `bench.${number}.*`;
}

export function natsSubject(slot: number): string {
  return `bench.${slot % NATS_STREAMS}.${slot}`;
}
