/**
 * Requests of commands: some fields of a command by name, and a payload that the operation encodes. Streams
 * are named in all of them but those about buckets and groups.
 */
import { type CommandFields, newCommandFields } from './command.ts';
import type { Request } from './request.ts';

/** The part of a Request into which a command is written; a shard that proposes one has no more than that. */
export type CommandTarget = Pick<Request, 'command'>;

export interface CommandCodec<Asked> {
  write(request: CommandTarget, asked: Asked): void;
}

type FieldName = Exclude<keyof CommandFields, 'kind' | 'nowMs'>;
/** Bucket and stream are always given; what else is left out keeps its default. */
type Names = 'bucket' | 'stream';

/** Fields of a command by their own names; `fields` is the pooled object itself, for the hot path. */
export interface FieldsCodec<Name extends FieldName> extends CommandCodec<
  Readonly<Pick<CommandFields, Name & Names> & Partial<Pick<CommandFields, Exclude<Name, Names>>>>
> {
  fields(command: CommandFields): Pick<CommandFields, Name>;
}

export function commandFields<const Name extends FieldName>(...names: readonly Name[]): FieldsCodec<Name> {
  return {
    write({ command }, asked) {
      for (const name of names) copy(command, asked, name);
    },
    fields: (command) => command,
  };
}

function copy<Name extends keyof CommandFields>(to: CommandFields, from: Partial<CommandFields>, name: Name): void {
  const value = from[name];
  if (value !== undefined) to[name] = value;
}

/** With a payload that is made of what is asked. */
export function withPayload<Asked, Parameters>(
  named: CommandCodec<Asked>,
  encode: (parameters: Parameters) => Uint8Array,
): CommandCodec<Asked & Parameters> {
  return {
    write(request, asked) {
      named.write(request, asked);
      request.command.payload = encode(asked);
    },
  };
}

/** About a group, not a stream. */
export const NO_FIELDS: CommandCodec<unknown> = { write: () => undefined };

/** For a shard that proposes a command of its own. */
export function commandFor<Asked>(
  { number, request }: { readonly number: number; readonly request: CommandCodec<Asked> },
  asked: Asked,
): CommandFields {
  const command = newCommandFields();
  command.kind = number;
  request.write({ command }, asked);
  return command;
}
