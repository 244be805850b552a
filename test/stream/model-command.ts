// Commands for the model of the state machine, and its answers.
export interface ModelProducer {
  readonly id: string;
  readonly epoch: number;
  readonly seq: number;
}

export interface ModelCommand {
  readonly kind:
    | 'create'
    | 'append'
    | 'batch'
    | 'delete'
    | 'attributes'
    | 'touch'
    | 'expire'
    | 'delete-bucket'
    | 'purge'
    | 'quota';
  readonly now: number;
  readonly bucket: string;
  readonly stream: string;
  readonly close: boolean;
  readonly type: string;
  readonly seq: string | undefined;
  readonly producer: ModelProducer | undefined;
  /** -1 = none, as for the lifetimes. */
  readonly match: number;
  readonly expected: number;
  readonly ttl: number;
  readonly expires: number;
  /** As it should be stored; undefined = not sent. '{}' = none. */
  readonly attributes: string | undefined;
  readonly body: Uint8Array;
  /** The records of a JSON body, or undefined when it is not valid JSON. Ignored for other types. */
  readonly records: readonly string[] | undefined;
  /** batch: what the frames hold; `body` is then the frames as sent. */
  readonly frames?: readonly Pick<ModelCommand, 'body' | 'records'>[];
  /** quota: streams and retained bytes, -1 = no bound. */
  readonly quota?: readonly [number, number];
}

/** An answer in one line, so that two of them can be compared and read. */
export interface Outcome {
  code: string;
  next: number;
  start: number;
  flags: string[];
  records: string;
  producer: string;
  type: string;
  /** The body of a batch's answer; for a purge the number of streams removed. */
  body?: string;
}

export function outcomeText(outcome: Outcome): string {
  const { code, next, start, flags, records, producer, type, body } = outcome;
  const shown = `start=${start} next=${next} [${flags.join(' ')}] records=${records} producer=${producer} type=${type}`;
  return `${code} ${shown} body=${body ?? ''}`;
}
