{{- define "headgate.name" -}}
{{- $name := contains .Chart.Name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) }}
{{- $name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "headgate.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "headgate.serviceAccount" -}}
{{- default (include "headgate.name" .) .Values.serviceAccount.name }}
{{- end }}

{{/* The parts of a container that all processes share. */}}
{{- define "headgate.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
envFrom:
  - secretRef:
      name: {{ required "existingSecret is required: the name of a Secret with DATABASE_URL, REDIS_URL and the keys" .Values.existingSecret }}
env:
  {{- range $name, $value := .Values.env }}
  - name: {{ $name }}
    value: {{ required (printf "env.%s is required" $name) $value | quote }}
  {{- end }}
  {{- if .Values.metrics.enabled }}
  - name: METRICS_PORT
    value: {{ .Values.metrics.port | quote }}
  - name: METRICS_HOST
    value: 0.0.0.0
  {{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
volumeMounts:
  - { name: tmp, mountPath: /tmp }
  - { name: data, mountPath: /data }
{{- end }}

{{/* The parts of a pod that all processes share. */}}
{{- define "headgate.pod" -}}
serviceAccountName: {{ include "headgate.serviceAccount" . }}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  seccompProfile: { type: RuntimeDefault }
volumes:
  - { name: tmp, emptyDir: {} }
  - { name: data, emptyDir: {} }
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
