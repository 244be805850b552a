/** `npm run docs`: writes the generated parts of the documents, and the files that are generated whole. */
import { readFileSync, writeFileSync } from 'node:fs';
import { GENERATED, GENERATED_FILES, withPart } from './generated.ts';

for (const part of GENERATED) writeFileSync(part.path, withPart(readFileSync(part.path, 'utf8'), part));
for (const { path, write } of GENERATED_FILES) writeFileSync(path, write());
