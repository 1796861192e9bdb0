// Writes proto/descriptors.binpb, the FileDescriptorSet that the service reads in place of the .proto files: reading those takes it 90 ms
// and 10 MB. test/unit/grpc/transport/load-proto.test.ts says when it is out of date.
//
//   node proto/describe.mjs

import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { loadSync } from "@grpc/proto-loader";

const FILES = [
  "envoy/service/ratelimit/v3/rls.proto",
  "headgate/v1/budgets.proto",
  "envoy/service/rate_limit_quota/v3/rlqs.proto",
  "grpc/health/v1/health.proto",
  "grpc/reflection/v1/reflection.proto",
];
const ROOT = fileURLToPath(new URL(".", import.meta.url));
const OUT = fileURLToPath(new URL("descriptors.binpb", import.meta.url));

/** The encoded set. Types are named in full; each file comes after the files that it imports. */
export function describeProto() {
  const files = readFiles(loadSync(FILES, { includeDirs: [ROOT], keepCase: true }));
  for (const file of files) for (const type of file.messageType) nameMapEntries(type);
  const fileOfType = new Map();
  for (const file of files) {
    for (const type of file.enumType) fileOfType.set(`${file.package}.${type.name}`, file);
    for (const type of file.messageType) indexMessage(type, file.package, file, fileOfType);
  }
  for (const file of files) resolveFile(file, fileOfType);
  return toBinary(FileDescriptorSetSchema, create(FileDescriptorSetSchema, { file: inOrderOfDependency(files) }));
}

function readFiles(definition) {
  const byName = new Map();
  for (const { fileDescriptorProtos = [] } of Object.values(definition)) {
    for (const bytes of fileDescriptorProtos) {
      const file = fromBinary(FileDescriptorProtoSchema, bytes);
      if (!byName.has(file.name)) byName.set(file.name, file);
    }
  }
  return [...byName.values()];
}

// The language's rule for the message of a map's entries, which readers of descriptors hold to: `fields` has `FieldsEntry`. proto-loader
// says `Fields`.
function nameMapEntries(type) {
  for (const inner of type.nestedType) {
    nameMapEntries(inner);
    const field = type.field.find(({ typeName }) => inner.options?.mapEntry && typeName === inner.name);
    if (field === undefined) continue;
    inner.name = `${field.name.replace(/(?:^|_)(.)/g, (_match, first) => first.toUpperCase())}Entry`;
    field.typeName = inner.name;
  }
}

function indexMessage(type, scope, file, fileOfType) {
  const name = `${scope}.${type.name}`;
  fileOfType.set(name, file);
  for (const inner of type.enumType) fileOfType.set(`${name}.${inner.name}`, file);
  for (const inner of type.nestedType) indexMessage(inner, name, file, fileOfType);
}

// proto-loader's descriptors have relative type names, and lack the imports of files and the JSON names of fields. The JSON mapping and
// clients of reflection need all three.
function resolveFile(file, fileOfType) {
  const resolve = (reference, scope) => {
    const name = fullName(reference, scope, fileOfType);
    const home = fileOfType.get(name);
    if (home === undefined) throw new Error(`proto/ does not define ${reference}, which is used in ${scope}`);
    if (home !== file && !file.dependency.includes(home.name)) file.dependency.push(home.name);
    return `.${name}`;
  };
  const resolveMessage = (type, outer) => {
    const scope = `${outer}.${type.name}`;
    for (const field of type.field) {
      if (field.typeName !== "") field.typeName = resolve(field.typeName, scope);
      field.jsonName = field.name.replace(/_+(.?)/g, (_match, next) => next.toUpperCase());
    }
    for (const inner of type.nestedType) resolveMessage(inner, scope);
  };
  for (const type of file.messageType) resolveMessage(type, file.package);
  for (const service of file.service) {
    for (const method of service.method) {
      method.inputType = resolve(method.inputType, file.package);
      method.outputType = resolve(method.outputType, file.package);
    }
  }
}

// A relative name means the nearest type of that name, searched from the innermost scope outwards, as protoc does.
function fullName(reference, scope, known) {
  if (reference.startsWith(".")) return reference.slice(1);
  for (let at = scope; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf(".")))) {
    if (known.has(`${at}.${reference}`)) return `${at}.${reference}`;
  }
  return reference;
}

function inOrderOfDependency(files) {
  const byName = new Map(files.map((file) => [file.name, file]));
  const ordered = new Set();
  const visit = (file) => {
    for (const name of file.dependency) {
      const needed = byName.get(name);
      if (needed !== undefined && !ordered.has(needed)) visit(needed);
    }
    ordered.add(file);
  };
  for (const file of files) visit(file);
  return [...ordered];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(OUT, describeProto());
