// Loads proto/ for everything off the hot path: health, reflection, the command line, the JSON endpoint, tests.

import { fileURLToPath } from "node:url";
import { create, createFileRegistry, type FileRegistry, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  type DescriptorProto,
  type FieldDescriptorProto,
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
} from "@bufbuild/protobuf/wkt";
import { loadSync, type PackageDefinition } from "@grpc/proto-loader";
import { invariant } from "../../engine/base/invariant.ts";

/** Full name of the rate limit service. */
export const RATE_LIMIT_SERVICE = "envoy.service.ratelimit.v3.RateLimitService";
/** Path of the method that decides a call. */
export const SHOULD_RATE_LIMIT_PATH = `/${RATE_LIMIT_SERVICE}/ShouldRateLimit`;
/** Full name of the service that reserves and settles budgets. */
export const BUDGETS_SERVICE = "headgate.v1.Budgets";
export const RESERVE_PATH = `/${BUDGETS_SERVICE}/Reserve`;
export const SETTLE_PATH = `/${BUDGETS_SERVICE}/Settle`;
/** Full name of the health service. */
export const HEALTH_SERVICE = "grpc.health.v1.Health";

const FILES = ["envoy/service/ratelimit/v3/rls.proto", "headgate/v1/budgets.proto", "grpc/health/v1/health.proto"];

// proto/ is as many levels above src/grpc/transport as above dist/grpc/transport.
const PROTO_ROOT = fileURLToPath(new URL("../../../proto/", import.meta.url));

let loaded: PackageDefinition | undefined;

/**
 * Every type and service of proto/ by full name. Messages are plain objects: fields are named as in proto/, 64-bit numbers and enums
 * are strings (an unknown enum number stays a number), and absent fields have their defaults.
 */
export function loadProto(): PackageDefinition {
  loaded ??= loadSync(FILES, {
    includeDirs: [PROTO_ROOT],
    keepCase: true,
    longs: String,
    enums: String,
    defaults: true,
    oneofs: true,
  });
  return loaded;
}

/** The types of proto/ in the form that reads and writes proto3 JSON. */
export function loadRegistry(): FileRegistry {
  return createFileRegistry(create(FileDescriptorSetSchema, { file: loadFiles() }));
}

/** The files of proto/ as encoded FileDescriptorProtos, with full type names; each file comes after the files that it imports. */
export function loadFileDescriptors(): Buffer[] {
  return loadFiles().map((file) => Buffer.from(toBinary(FileDescriptorProtoSchema, file)));
}

// proto-loader's descriptors have relative type names, and lack the imports of files and the JSON names of fields. The JSON mapping and
// clients of reflection need all three.
function loadFiles(): FileDescriptorProto[] {
  const files = readFiles(loadProto());
  const fileOfType = new Map<string, FileDescriptorProto>();
  for (const file of files) {
    for (const type of file.enumType) fileOfType.set(`${file.package}.${type.name}`, file);
    for (const type of file.messageType) indexMessage(type, file.package, file, fileOfType);
  }
  for (const file of files) resolveFile(file, fileOfType);
  return inOrderOfDependency(files);
}

function readFiles(definition: PackageDefinition): FileDescriptorProto[] {
  const byName = new Map<string, FileDescriptorProto>();
  for (const type of Object.values(definition)) {
    if (!("fileDescriptorProtos" in type) || !Array.isArray(type.fileDescriptorProtos)) continue;
    for (const bytes of type.fileDescriptorProtos) {
      const file = fromBinary(FileDescriptorProtoSchema, bytes);
      if (!byName.has(file.name)) byName.set(file.name, file);
    }
  }
  return [...byName.values()];
}

function indexMessage(
  type: DescriptorProto,
  scope: string,
  file: FileDescriptorProto,
  fileOfType: Map<string, FileDescriptorProto>,
): void {
  const name = `${scope}.${type.name}`;
  fileOfType.set(name, file);
  for (const inner of type.enumType) fileOfType.set(`${name}.${inner.name}`, file);
  for (const inner of type.nestedType) indexMessage(inner, name, file, fileOfType);
}

function resolveFile(file: FileDescriptorProto, fileOfType: ReadonlyMap<string, FileDescriptorProto>): void {
  const resolve = (reference: string, scope: string): string => {
    const name = fullName(reference, scope, fileOfType);
    const home = fileOfType.get(name);
    invariant(home !== undefined, `proto/ defines ${reference}, used in ${scope}`);
    if (home !== file && !file.dependency.includes(home.name)) file.dependency.push(home.name);
    return `.${name}`;
  };
  const resolveField = (field: FieldDescriptorProto, scope: string): void => {
    if (field.typeName !== "") field.typeName = resolve(field.typeName, scope);
    field.jsonName = field.name.replace(/_+(.?)/g, (_match, next: string) => next.toUpperCase());
  };
  const resolveMessage = (type: DescriptorProto, outer: string): void => {
    const scope = `${outer}.${type.name}`;
    for (const field of type.field) resolveField(field, scope);
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
function fullName(reference: string, scope: string, known: ReadonlyMap<string, unknown>): string {
  if (reference.startsWith(".")) return reference.slice(1);
  for (let at = scope; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf(".")))) {
    if (known.has(`${at}.${reference}`)) return `${at}.${reference}`;
  }
  return reference;
}

function inOrderOfDependency(files: readonly FileDescriptorProto[]): FileDescriptorProto[] {
  const byName = new Map(files.map((file) => [file.name, file]));
  const ordered = new Set<FileDescriptorProto>();
  const visit = (file: FileDescriptorProto): void => {
    for (const name of file.dependency) {
      const needed = byName.get(name);
      if (needed !== undefined && !ordered.has(needed)) visit(needed);
    }
    ordered.add(file);
  };
  for (const file of files) visit(file);
  return [...ordered];
}
