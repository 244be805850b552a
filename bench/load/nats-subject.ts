// The benchmark's streams in JetStream: subjects, spread over a few replicated streams. One JetStream stream each would
// mean one Raft group each, which is not how NATS is meant to be used (and slower).

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
