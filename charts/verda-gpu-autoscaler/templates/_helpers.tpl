{{- define "gpuas.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "gpuas.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "gpuas.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "gpuas.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gpuas.selector" -}}
app.kubernetes.io/name: {{ include "gpuas.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gpuas.labels" -}}
{{ include "gpuas.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "gpuas.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "gpuas.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The settings file. A whole file (--set-file config=…) stays as it is, comments included. */}}
{{- define "gpuas.settings" -}}
{{- if kindIs "string" .Values.config -}}
{{- .Values.config -}}
{{- else if or .Values.config (not .Values.nodeGroups) -}}
{{- toYaml .Values.config -}}
{{- end -}}
{{- with .Values.nodeGroups }}
machines:
{{- range . }}
  - name: {{ .name | quote }}
    gpu_count: {{ int .gpuCount }}
    scale_up_endpoint: {{ .scaleUpEndpoint | quote }}
    scale_down_endpoint: {{ .scaleDownEndpoint | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Names of the Secrets with join tokens and credentials of webhooks, as a JSON list: the only ones that may be read. */}}
{{- define "gpuas.joinSecrets" -}}
{{- $names := list -}}
{{- range $entry := (include "gpuas.settings" . | fromYaml).join -}}
{{- with (dig "token_from" "secret" "name" "" (default dict $entry)) -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- range $entry := (include "gpuas.settings" . | fromYaml).webhooks -}}
{{- $auth := dig "auth" dict (default dict $entry) -}}
{{- $tls := dig "tls" dict (default dict $entry) -}}
{{- $sources := list $auth.bearer (dig "basic" "password" dict $auth) (dig "header" "value" dict $auth) -}}
{{- $sources = concat $sources (list (dig "hmac" "key" dict $auth) $tls.ca $tls.certificate $tls.key) -}}
{{- range $source := $sources -}}
{{- with (dig "secret" "name" "" (default dict $source)) -}}
{{- $names = append $names . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $names | uniq | sortAlpha | toJson -}}
{{- end -}}

{{- define "gpuas.secret" -}}
{{- default (include "gpuas.fullname" .) .Values.existingSecret -}}
{{- end -}}

{{/* What contradicts itself. What is only missing yet is told by the notes. */}}
{{- define "gpuas.check" -}}
{{- $settings := include "gpuas.settings" . | fromYaml -}}
{{- if hasKey $settings "Error" -}}
{{- fail (printf "config is not YAML: %s" $settings.Error) -}}
{{- end -}}
{{- $own := .Values.config -}}
{{- if kindIs "string" $own -}}
{{- $own = fromYaml $own -}}
{{- end -}}
{{- if and .Values.nodeGroups (hasKey (default dict $own) "machines") -}}
{{- fail "give either nodeGroups or config.machines, not both" -}}
{{- end -}}
{{- with .Values.externalgrpc -}}
{{- if and .insecure (or .tlsSecret .allowedNames) -}}
{{- fail "give either externalgrpc.insecure or externalgrpc.tlsSecret and allowedNames, not both: without TLS nobody proves a name" -}}
{{- end -}}
{{- end -}}
{{- $given := or .Values.credentials.clientId .Values.credentials.clientSecret -}}
{{- if and .Values.existingSecret $given -}}
{{- fail "give either existingSecret or credentials, not both" -}}
{{- end -}}
{{- if and $given (not (and .Values.credentials.clientId .Values.credentials.clientSecret)) -}}
{{- fail "credentials needs both clientId and clientSecret" -}}
{{- end -}}
{{- end -}}
