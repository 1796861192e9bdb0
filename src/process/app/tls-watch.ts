// Connects the certificates of the gRPC port with log, health and metrics: renewed, refused, or about to expire.

import { WallClock } from "../../base/clock.ts";
import type { Log } from "../../base/log.ts";
import { isoTime, MICROS_PER_SECOND } from "../../base/units.ts";
import { TlsFiles } from "../../grpc/transport/tls-files.ts";
import type { AppParts } from "./app-parts.ts";

type TlsParts = Pick<AppParts, "settings" | "health"> & { readonly logger: Log };

/**
 * Opens the certificates that the settings name; undefined without TLS. Throws ConfigError if they can't serve. A fault
 * in them is a note on the health pages, not a trouble, because callers that don't check for it are served.
 */
export function openTls({ settings, logger, health }: TlsParts): TlsFiles | undefined {
  const { grpcTlsCertFile: certFile, grpcTlsKeyFile: keyFile } = settings;
  if (!settings.grpcUsesTls || certFile === undefined || keyFile === undefined) return undefined;
  const clientCaFile = settings.grpcClientCaFile;
  let saidFault: string | undefined;
  const show = (files: TlsFiles) => {
    const { refusal, fault } = files.status();
    const kept = refusal === undefined ? [] : [`changed certificates are not in force: ${refusal}`];
    const notes = fault === undefined ? kept : [`callers may reject the certificates in force: ${fault}`, ...kept];
    health.setNote("certificates", notes.length === 0 ? undefined : notes.join("; "));
    if (fault !== undefined && fault !== saidFault) {
      logger.error({ cert_file: certFile, why: fault }, "callers may reject the certificates in force");
    }
    saidFault = fault;
  };
  const files: TlsFiles = new TlsFiles(
    { certFile, keyFile, clientCaFile, clientName: settings.grpcClientName },
    {
      renewed: (validTo) =>
        logger.info({ cert_file: certFile, valid_to: validTo }, "renewed certificates are in force"),
      refused: (why) =>
        logger.error({ cert_file: certFile, why }, "changed certificates rejected; the old ones stay in force"),
      looked: () => show(files),
    },
  );
  show(files);
  return files;
}

/** Seconds until the certificates expire, and seconds of their whole validity; undefined without TLS. */
export function tlsNumbers(files: TlsFiles | undefined) {
  if (files === undefined) return undefined;
  const { validFromUs, validToUs } = files.status();
  return {
    remainingSeconds: (validToUs - new WallClock().nowUs()) / MICROS_PER_SECOND,
    lifetimeSeconds: (validToUs - validFromUs) / MICROS_PER_SECOND,
  };
}

/** The certificates' part of `/config`; undefined without TLS. */
export function tlsView(files: TlsFiles | undefined): Readonly<Record<string, unknown>> | undefined {
  if (files === undefined) return undefined;
  const { subject, validFromUs, validToUs, refusal, fault } = files.status();
  return {
    file: files.names.certFile,
    subject,
    valid_from: isoTime(validFromUs),
    valid_to: isoTime(validToUs),
    fault: fault ?? null,
    last_error: refusal ?? null,
  };
}
