// Server reflection, versions v1 and v1alpha: describes the services of proto/ to grpcurl and similar tools. Errors are
// answers, and the stream goes on after them.

import type { DescFile } from "@bufbuild/protobuf";
import { GrpcStatus } from "../unary.ts";
import { loadRegistry, messageMethod, protobuf, wellKnownTypes } from "./load-proto.ts";
import type { MessageMethod } from "./transport.ts";

const VERSIONS = ["v1", "v1alpha"];
const TYPES = {
  request: "grpc.reflection.v1.ServerReflectionRequest",
  response: "grpc.reflection.v1.ServerReflectionResponse",
  streams: "both",
} as const;

/** ServerReflectionRequest, as far as it is read here. */
interface Request {
  readonly host: string;
  readonly messageRequest: { readonly case?: string | undefined; readonly value?: unknown };
}
/** The part of a ServerReflectionResponse that answers. */
interface Answer {
  readonly case: "fileDescriptorResponse" | "listServicesResponse" | "errorResponse";
  readonly value: object;
}

/** The methods of reflection, which lists `serviceNames`. */
export function reflectionMethods(serviceNames: readonly string[]): readonly MessageMethod[] {
  const reflection = new Reflection(serviceNames);
  const handle: MessageMethod["handle"] = (request, call) => {
    if (request === undefined) call.end();
    else call.answer(reflection.answer(request as Request));
  };
  return VERSIONS.map((version) =>
    messageMethod(`/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`, TYPES, handle),
  );
}

class Reflection {
  readonly #services: readonly { readonly name: string }[];
  /** Encoded when they are first asked for. */
  readonly #encoded = new Map<DescFile, Uint8Array>();

  constructor(serviceNames: readonly string[]) {
    this.#services = serviceNames.map((name) => ({ name }));
  }

  answer(request: Request): object {
    return { validHost: request.host, originalRequest: request, messageResponse: this.#answerOf(request) };
  }

  #answerOf({ messageRequest: { case: asked, value } }: Request): Answer {
    switch (asked) {
      case "listServices":
        return { case: "listServicesResponse", value: { service: this.#services } };
      case "fileByFilename":
        return this.#describe(loadRegistry().getFile(String(value)), `Proto file not found: ${value}`);
      case "fileContainingSymbol":
        return this.#describe(this.#fileOf(String(value)), `Symbol not found: ${value}`);
      case "fileContainingExtension":
      case "allExtensionNumbersOfType":
        return failure(GrpcStatus.notFound, "Extension not found: there are none");
      default:
        return failure(GrpcStatus.unimplemented, "Unimplemented method for request");
    }
  }

  /**
   * The file of a type or a service, or of the one whose member the symbol may be: the caller looks for the member in
   * it.
   */
  #fileOf(symbol: string): DescFile | undefined {
    const registry = loadRegistry();
    return (registry.get(symbol) ?? registry.get(symbol.slice(0, Math.max(0, symbol.lastIndexOf(".")))))?.file;
  }

  #describe(file: DescFile | undefined, orElse: string): Answer {
    if (file === undefined) return failure(GrpcStatus.notFound, orElse);
    // A set keeps its order and grows while it is read.
    const files = new Set([file]);
    for (const { dependencies } of files) for (const each of dependencies) files.add(each);
    return {
      case: "fileDescriptorResponse",
      value: { fileDescriptorProto: [...files].map((each) => this.#encode(each)) },
    };
  }

  #encode(file: DescFile): Uint8Array {
    const bytes =
      this.#encoded.get(file) ?? protobuf().toBinary(wellKnownTypes().FileDescriptorProtoSchema, file.proto);
    this.#encoded.set(file, bytes);
    return bytes;
  }
}

function failure(errorCode: GrpcStatus, errorMessage: string): Answer {
  return { case: "errorResponse", value: { errorCode, errorMessage } };
}
