// The smallest value that fits a schema of the OpenAPI document, for stand-ins that answer as the real part would.

export interface Shape {
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly example?: unknown;
  readonly oneOf?: readonly Shape[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly format?: string;
  readonly minimum?: number;
  readonly description?: string;
}

export function exampleOf(shape: Shape): unknown {
  if (shape.const !== undefined) return shape.const;
  if (shape.enum !== undefined) return shape.enum[0];
  if (shape.example !== undefined) return shape.example;
  if (shape.oneOf !== undefined) return exampleOf(shape.oneOf[0] ?? {});
  const type = typeof shape.type === 'string' ? shape.type : (shape.type?.[0] ?? 'object');
  switch (type) {
    case 'string':
      return shape.format === 'date-time' ? '2026-01-01T00:00:00.000Z' : 'text';
    case 'integer':
      return shape.minimum ?? 0;
    case 'boolean':
      return true;
    case 'array':
      return [];
    case 'null':
      return null;
    default:
      return Object.fromEntries(
        (shape.required ?? []).map((name) => [name, exampleOf(shape.properties?.[name] ?? {})]),
      );
  }
}
