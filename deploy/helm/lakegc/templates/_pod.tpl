{{- define "lakegc.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "lakegc.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "lakegc.pod" -}}
serviceAccountName: {{ .Release.Name }}
terminationGracePeriodSeconds: 300
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: settings
    configMap:
      name: {{ .Release.Name }}-settings
  - name: home
    persistentVolumeClaim:
      claimName: {{ .Release.Name }}-home
{{- end }}

{{- define "lakegc.container" -}}
image: {{ include "lakegc.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
envFrom:
  - secretRef:
      name: {{ .Values.existingSecret }}
resources: {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  capabilities:
    drop: ["ALL"]
volumeMounts:
  - name: settings
    mountPath: /etc/lakegc
    readOnly: true
  - name: home
    mountPath: /var/lib/lakegc/dagster_home
{{- end }}
